"""The headers of a message, from the lines in which the protocol has them (NATS's ADR-4)."""

from __future__ import annotations

_LINE = b"\r\n"


def pairs(raw: bytes | None) -> list[tuple[str, bytes]]:
    """Return names and values, each name once.

    The values of a name that comes several times are joined by `, `, as those of HTTP fields are: a map
    of Spark's has one value for each key, and none is to get lost.
    """
    if not raw:
        return []
    found: dict[str, bytes] = {}
    for line in raw.split(_LINE)[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            key = name.decode("utf-8", "replace")
            text = value.strip()
            found[key] = found[key] + b", " + text if key in found else text
    return list(found.items())


def status(raw: bytes | None) -> tuple[int, str] | None:
    """Return code and text of a message that the server itself sent, None for another."""
    if not raw:
        return None
    line = raw.partition(_LINE)[0].split(b" ", 2)
    if len(line) < 2 or not line[1].isdigit():
        return None
    return int(line[1]), line[2].decode("utf-8", "replace").strip() if len(line) > 2 else ""


def value(raw: bytes | None, name: bytes) -> bytes | None:
    """Return the value of one header, the last one; None if it is not there."""
    if not raw:
        return None
    begin = raw.rfind(b"\r\n" + name + b":")
    if begin < 0:
        return None
    begin += len(name) + 3
    return raw[begin : raw.find(_LINE, begin)].strip()
