"""Values that are never printed: an option's type, how one is checked, and where they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_origin
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import BaseModel, SecretStr
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

#: A value that is never printed. `.get_secret_value()` gives it.
Secret = SecretStr


class Unprinted(Secret):
    """A value that need not be a secret, such as one of a client's settings.

    It is not printed where it stands, and, unlike a secret, not looked for in other texts either: the
    word `true` would be taken out of them all.
    """


_TEXT = {"type": "string", "minLength": 1, "writeOnly": True, "format": "password"}


class Hidden:
    """In `Annotated[TYPE, Hidden(check)]`: a secret that is looked into, and that no error shows.

    Errors of pydantic carry the value that they are about, and whoever reports them may print it. So
    a text becomes a `Secret` in a first step, and the check is given that.

    `TYPE` is `Secret`; `tuple[Secret, ...]`, where a document writes one text or a list of them; or
    `dict[str, Secret]`. What is no such thing is refused before the check.

    Args:
        check: takes the value, of `TYPE`, and returns what the option holds.
            Raises `ValueError` when it is wrong; the message has nothing of it.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self._check = check

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        hide = {tuple: _hide_all, dict: _hide_values}.get(get_origin(source), _hide)
        steps: list[core_schema.CoreSchema] = [
            core_schema.no_info_plain_validator_function(hide),
            core_schema.no_info_plain_validator_function(self._checked),
        ]
        return core_schema.chain_schema(steps)

    def _checked(self, value: Any) -> Any:
        # Told here and not in the first step, whose errors carry what was written.
        if value is None:
            raise ValueError("expected names with texts")
        held = value.values() if isinstance(value, dict) else value
        if any(each is _NO_TEXT for each in (held if isinstance(held, Iterable) else [held])):
            raise ValueError("expected text; what looks like a number is written in quotes")
        return self._check(value)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> JsonSchemaValue:
        while schema["type"] != "chain":
            schema = schema["schema"]
        return dict(_SCHEMAS[schema["steps"][0]["function"]["function"]])


_NO_TEXT = Secret("")


def _hide(value: Any) -> Secret:
    if isinstance(value, Secret):
        return value
    return Secret(value) if isinstance(value, str) else _NO_TEXT


def _hide_all(value: Any) -> tuple[Secret, ...]:
    return tuple(map(_hide, value if isinstance(value, list | tuple) else [value]))


def _hide_values(value: Any) -> dict[str, Secret] | None:
    if not isinstance(value, dict):
        return None
    return {str(name): _hide(held) for name, held in value.items()}


_SCHEMAS: Mapping[Any, JsonSchemaValue] = {
    _hide: _TEXT,
    _hide_all: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]},
    _hide_values: {"type": "object", "additionalProperties": _TEXT},
}


def check_database_url(url: Secret, schemes: Collection[str], expected: str) -> Secret:
    """Return the URL of a database of a server, without blanks around it; for `Hidden`.

    Args:
        schemes: that it may begin with.
        expected: what is said of another one.

    Raises:
        ValueError: it can't be read, or read in two ways, or names no host or no database. The message
            has nothing of it.
    """
    text = url.get_secret_value().strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_ENCODE) from None
    if parts.scheme not in schemes:
        raise ValueError(expected)
    if parts.fragment:
        raise ValueError("the URL has something after `#`: in a password write %23")
    # What the one reads as a host may be another's password, which errors would then show.
    if "@" in parts.path or parts.netloc.count("@") > 1 or not text.isprintable():
        raise ValueError(_ENCODE)
    if not parts.hostname or port == 0:
        raise ValueError("the URL has no host, or port 0")
    if not parts.path.strip("/"):
        raise ValueError("the URL names no database: .../DATABASE")
    return Secret(text)


_ENCODE = (
    "no valid URL: is a character of the password not encoded (`@` as %40, `/` as %2F, `#` as %23)?"
)


def secrets_in(value: Any) -> Iterator[str]:
    """Yield the texts of all secrets in options (`Unprinted` is none): each whole, and a URL's password.

    A password that stands elsewhere in its URL, as in `postgres:postgres@`, is not told by itself:
    with it, words would be hidden that are none.
    """
    if isinstance(value, Unprinted):
        return
    if isinstance(value, Secret):
        text = value.get_secret_value()
        if text:
            yield text
        with suppress(ValueError):
            password = urlsplit(text).password
            if password and text.count(password) == 1:
                yield from {password, unquote(password)}
    elif isinstance(value, Mapping):
        yield from secrets_in(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from secrets_in(each)
    elif isinstance(value, BaseModel):
        yield from secrets_in([getattr(value, name) for name in type(value).model_fields])


def split_address(url: Secret) -> SplitResult:
    """Return the parts of an address that may hold a password.

    Raises:
        ValueError: it is none; nothing of it is shown.
    """
    try:
        parts = urlsplit(url.get_secret_value())
        parts.port  # noqa: B018  # raises ValueError if it is no number
    except ValueError:
        raise ValueError("it is no address: is the port a number?") from None
    return parts


#: A host, with a port or without.
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?")


def check_web_address(url: Secret, login: str) -> SplitResult:
    """Return the parts of an address of HTTP that may hold no login.

    Args:
        login: the option that holds one, for the error.

    Raises:
        ValueError: it is none, or has a login; nothing of it is shown.
    """
    parts = split_address(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected a URL: https://HOST")
    if parts.username or parts.password:
        raise ValueError(f"a login is no part of it: write `{login}`")
    if not _HOST.fullmatch(parts.netloc):
        raise ValueError("its host is none")
    return parts
