"""Entries of streams as messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mainstem_ingress import Message

from mainstem_cache_redis.options import RedisSourceOptions
from mainstem_cache_redis.sender import HEADER

_MICROS = re.compile(rb"-?\d{1,19}")
#: The end of the year 9999, in microseconds: ids can be anybody's.
_LAST = 253_402_300_799_999_999
#: The stream, the entry's id, its fields and their values in turn.
Reader = Callable[[str, bytes, Sequence[bytes]], Message]


def reader(options: RedisSourceOptions) -> Reader:
    """Return what makes messages of entries, as the options say."""
    return _written if options.format == "messages" else partial(_fields, options)


def _fields(
    options: RedisSourceOptions, stream: str, id_: bytes, fields: Sequence[bytes]
) -> Message:
    """Return an entry whose fields are a JSON object of texts, or the value of one of them."""
    held = dict(zip(fields[::2], fields[1::2], strict=True))
    refused, value = None, None
    if options.value is not None:
        value = held.pop(options.value.encode(), None)
        if value is None:
            refused = f"it has no field {options.value}"
        headers = [(name.decode(errors="replace"), each) for name, each in held.items()]
    else:
        headers = []
        try:
            texts = {name.decode(): each.decode() for name, each in held.items()}
            value = json.dumps(texts, ensure_ascii=False).encode()
        except UnicodeDecodeError:
            value = b" ".join(fields)
            refused = "a field is no UTF-8 text: name the one that is the value"
    key = held.get(options.key.encode()) if options.key is not None else None
    return Message(
        value,
        key,
        headers,
        _time(id_),
        stream,
        name_of(stream, id_),
        token=(stream, id_),
        refused=refused,
    )


def _written(stream: str, id_: bytes, fields: Sequence[bytes]) -> Message:
    """Return an entry as the sink `redis` has written it."""
    held: Mapping[bytes, bytes] = dict(zip(fields[::2], fields[1::2], strict=True))
    headers = [
        (name.removeprefix(HEADER).decode(errors="replace"), each)
        for name, each in held.items()
        if name.startswith(HEADER)
    ]
    given: dict[str, Any] = {"timestamp": _time(id_), "id": name_of(stream, id_)}
    written = held.get(b"timestamp", b"")
    if _MICROS.fullmatch(written) and abs(int(written)) < 2**63:
        given["timestamp"] = int(written)
    if held.get(b"id"):
        given["id"] = held[b"id"]
    return Message(
        held.get(b"value"), held.get(b"key"), headers, origin=stream, token=(stream, id_), **given
    )


def name_of(stream: str, id_: bytes) -> bytes:
    """Return what tells an entry from every other."""
    return b"%b %b" % (stream.encode(), id_)


def _time(id_: bytes) -> int | None:
    """Return when an entry was added, by its id, in microseconds; None where that can't be a time."""
    micros = int(id_.partition(b"-")[0]) * 1000
    return micros if micros <= _LAST else None
