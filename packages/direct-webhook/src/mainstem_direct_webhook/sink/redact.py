"""Blanks the secrets of the options in what an endpoint says."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import unquote, unquote_plus

from mainstem_direct_webhook.sink.client import common_headers
from mainstem_direct_webhook.sink.options import WebhookSinkOptions
from mainstem_direct_webhook.sink.secret_options import split, userinfo

#: Characters of an answer's body that are shown.
_SHOWN = 300
#: Shorter texts are in every other word.
_LEAST = 4


class Blanking:
    """Shows what an endpoint says without the secrets of the options, should it repeat them.

    A secret is known as it is written, percent-decoded, and with any of its characters escaped as URLs,
    JSON or HTML do; in upper and lower case.
    """

    def __init__(self, options: WebhookSinkOptions) -> None:
        self._options = options

    def shown(self, text: str) -> str:
        """Return the start of a text, in one line and without secrets."""
        blanked = self._secret.sub("**********", " ".join(text.split()))
        return "".join(char if char.isprintable() else "?" for char in blanked)[:_SHOWN]

    @cached_property
    def _secret(self) -> re.Pattern[str]:  # takes some 20 ms to make, and few tasks need it
        forms = {form for text in _secrets(self._options) for form in _forms(text)}
        longest_first = sorted((f for f in forms if len(f) >= _LEAST), key=len, reverse=True)
        written = ("".join(map(_escaped, form)) for form in longest_first)
        return re.compile("|".join(written) or "(?!)", re.IGNORECASE)


def _secrets(options: WebhookSinkOptions) -> Iterable[str]:
    url = options.url
    parts = split(url)
    yield url.get_secret_value()
    for each in options.headers.values():
        yield each.get_secret_value()
    for each in options.sign_with or ():
        yield from (each.get_secret_value(), each.get_secret_value().partition("_")[2])
    if options.auth is not None and options.auth.password is not None:
        yield options.auth.password.get_secret_value()
    for name, value in common_headers(options):
        if name == b"authorization":
            yield value.decode("latin-1").partition(" ")[2]
    yield from (userinfo(url) or ("", ""))[1:]
    yield parts.query
    for pair in parts.query.split("&"):
        yield pair.partition("=")[2] or pair
    yield from parts.path.split("/")


def _forms(text: str) -> Iterable[str]:
    """Yield a text as it is and decoded, with one space for any white space."""
    for form in (text, unquote(text), unquote_plus(text)):
        yield " ".join(form.split())


def _escaped(char: str) -> str:
    """Return what matches a character, be it escaped or not."""
    code = ord(char)
    percent = "".join(f"%{byte:02x}" for byte in char.encode(errors="replace"))
    texts = {char, percent, json.dumps(char)[1:-1], f"\\{char}", html.escape(char)}
    if char == " ":
        texts.add("+")
    if code > 0x7F:
        texts.add("\ufffd")  # of what is not UTF-8
    patterns = [
        *map(re.escape, sorted(texts)),
        rf"\\u{code:04x}",
        rf"&#0*{code};",
        rf"&#x0*{code:x};",
    ]
    return f"(?:{'|'.join(patterns)})"
