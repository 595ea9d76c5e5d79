"""Writes CloudEvents 1.0 for HTTP: binary, structured and batched (JSON).

Attributes of a message stand in its headers as `ce-NAME`, and the type of its data as `content-type`, as
the source `webhook` gives them. `id` is the message's own identity, and `time` its timestamp.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import quote

from mainstem_direct_webhook.cloudevents import EPOCH, NAME, is_json
from mainstem_direct_webhook.fields import VALUE

DEFAULT_TYPE = "application/json"

#: What a header's value need not encode: all that is visible but `"` and `%` (HTTP binding, 3.1.3.2).
_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
#: What is not taken from a message's headers.
_OURS = ("id", "specversion", "datacontenttype", "data", "data_base64")

Headers = Mapping[str, bytes | None]


def attributes(
    identity: str,
    headers: Headers,
    micros: int | None,
    *,
    source: str | None,
    kind: str | None,
) -> dict[str, str]:
    """Return the attributes of a message's event, without `datacontenttype`.

    Args:
        identity: the event's `id`.
        headers: of the message, of which `ce-NAME` are taken.
        micros: the event's `time`, in microseconds since 1970.
        source: if the headers have no `ce-source`.
        kind: the `type`, if the headers have no `ce-type`.

    Raises:
        ValueError: the event has no source or type, an attribute that CloudEvents does not have, or a
            time that RFC 3339 can't say.
    """
    found = {"specversion": "1.0", "id": identity}
    found |= {name: text for name, text in (("source", source), ("type", kind)) if text}
    for header, held in headers.items():
        name = header.lower()[3:]
        if not header.lower().startswith("ce-") or name in _OURS or not held:
            continue
        if not NAME.fullmatch(name):
            raise ValueError(f"{header} is no attribute: names have a-z and 0-9 alone")
        try:
            found[name] = held.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{header} is not UTF-8") from None
        if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in found[name]):
            raise ValueError(f"{header} has a control character")
    if micros is not None:
        try:
            at = EPOCH + timedelta(microseconds=micros)
        except OverflowError:
            raise ValueError("the timestamp is not within the years 1 to 9999") from None
        found["time"] = at.isoformat().replace("+00:00", "Z")
    for name in ("source", "type"):
        if name not in found:
            raise ValueError(
                f"the event has no {name}: neither a header ce-{name} nor the option says it"
            )
    return found


def data_type(headers: Headers, otherwise: str | None) -> str:
    """Return the type of a message's data: its header `content-type`, else what is said, else JSON.

    Raises:
        ValueError: the header is not what a request can carry.
    """
    held = next((held for name, held in headers.items() if name.lower() == "content-type"), None)
    if not held:
        return otherwise or DEFAULT_TYPE
    text = held.decode("latin-1")
    if not (text.isascii() and VALUE.fullmatch(text)):
        raise ValueError("content-type is no media type")
    return text


def binary(event: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers of an event in binary mode, without `content-type`."""
    return [(f"ce-{name}", quote(text, safe=_VISIBLE)) for name, text in event.items()]


def structured(event: Mapping[str, str], kind: str, value: bytes | None) -> bytes:
    """Return an event as a JSON object.

    Data of a JSON type stands in it as it is, text of a `text/` type as a string, other as base64.

    Args:
        event: the attributes.
        kind: the type of the data.
        value: the data; None for an event without. It must be JSON if `kind` is a type of JSON.
    """
    members = dict(event)
    if value is None:
        return _dumps(members)
    members["datacontenttype"] = kind
    if is_json(kind):
        return b'%s,"data":%s}' % (_dumps(members)[:-1], value)
    if kind.lower().startswith("text/"):
        try:
            return _dumps({**members, "data": value.decode()})
        except UnicodeDecodeError:
            pass
    return _dumps({**members, "data_base64": base64.b64encode(value).decode()})


def _dumps(members: Mapping[str, str]) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
