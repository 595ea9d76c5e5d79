"""What the options of source and sink are made of: texts in headers, and secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mainstem import Secret
from pydantic_core import core_schema

#: A name of a header (RFC 9110, section 5.6.2).
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: A value of a header: visible characters, with spaces and tabs within.
VALUE = re.compile(r"[!-~\x80-\xff]([ \t!-~\x80-\xff]*[!-~\x80-\xff])?|")


#: JSON Schemas of a secret, and of one or several.
SECRET_SCHEMA = {"type": "string", "minLength": 1, "writeOnly": True, "format": "password"}
SECRETS_SCHEMA = {
    "anyOf": [SECRET_SCHEMA, {"type": "array", "items": SECRET_SCHEMA, "minItems": 1}]
}


class Hidden:
    """Makes a value secret in a first step that takes any, and looks into it in a second.

    Errors of pydantic carry the value that they are about; so whoever reports them has none.
    """

    def __init__(self, hide: Callable[[Any], Any], check: Callable[[Any], Any]) -> None:
        self._steps = (hide, check)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        steps: list[core_schema.CoreSchema] = [
            core_schema.no_info_plain_validator_function(step) for step in self._steps
        ]
        return core_schema.chain_schema(steps)


def hide(value: Any) -> Secret:
    """Return a text as a secret; what is none becomes an empty one, for the second step to refuse."""
    if isinstance(value, Secret):
        return value
    return Secret(value if isinstance(value, str) else "")


def hide_all(value: Any) -> tuple[Secret, ...]:
    """Return one text, or a list of them, as secrets."""
    return tuple(map(hide, value if isinstance(value, list | tuple) else [value]))
