"""The rule by which a message's frames become a row's columns, and a row becomes frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mainstem_ingress import Message

#: The header that holds what a frame `sequence` did, in digits, and the one of a frame `id`.
SEQUENCE, ID = "zmq.sequence", "zmq.id"
_OURS = (SEQUENCE, ID)
#: How a frame is named that goes into a header of its own.
HEADER = "header."
_PLAIN_NAMES = ("value", "key", "topic", "headers", "sequence", "id", "skip")
#: Makes a message of its fields, as `Message._make` does, at a third of its cost.
made: Any = partial(tuple.__new__, Message)
#: How much of a refused message's frames is kept.
KEPT = 64 * 1024
_MOST_HEADERS = 2**20


def check_layout(names: Sequence[str]) -> None:
    """Check the names of frames.

    Raises:
        ValueError: a name is unknown or there twice, or `value` is missing.
    """
    for name in names:
        if name not in _PLAIN_NAMES and not (name.startswith(HEADER) and name != HEADER):
            known = ", ".join([*_PLAIN_NAMES, f"{HEADER}NAME"])
            raise ValueError(f"there is no frame {name!r}; known are {known}")
    for name in names:
        if name != "skip" and names.count(name) > 1:
            raise ValueError(f"the frame {name!r} is there twice")
    if "value" not in names:
        raise ValueError("no frame is the value")
    for name, header in (("sequence", SEQUENCE), ("id", ID)):
        if name in names and HEADER + header in names:
            raise ValueError(f"the header {header} would come from two frames")


class Fields(NamedTuple):
    """What frames are made of. `headers` is None where there are none."""

    value: bytes | None
    key: bytes | None = None
    topic: str | None = None
    headers: Mapping[str, bytes] | None = None
    #: `_id` of the row.
    id: bytes | None = None


class Layout:
    """The frames of every message, by name and in order; the README says what each becomes.

    Args:
        names: see `check_layout`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.count = len(self.names)
        at = {name: index for index, name in enumerate(self.names)}
        self._value = at["value"]
        self._key, self._topic, self._headers = at.get("key"), at.get("topic"), at.get("headers")
        self._id = at.get("id")
        named = {name.removeprefix(HEADER): i for name, i in at.items() if name.startswith(HEADER)}
        named |= {h: at[n] for n, h in (("sequence", SEQUENCE), ("id", ID)) if n in at}
        self._named = tuple(named.items())
        #: The message columns, beside that of the topic, that rows must have.
        self.needs = ["value"]
        if self._key is not None:
            self.needs.append("key")
        if self._headers is not None or any(name != ID for name in named):
            self.needs.append("headers")

    # -- reading ------------------------------------------------------------------------------

    def message(self, frames: Sequence[bytes], origin: str) -> Message:
        """Return frames as a message of the log; refused, with the reason, if they do not fit.

        Args:
            origin: that of messages without a topic.
        """
        try:
            value, key, topic, headers, identifier = self._read(frames)
        except ValueError as error:
            return refused(frames, origin, str(error))
        origin = origin if topic is None else topic
        row = (value, key, headers, None, origin, identifier or None, None, None, None, ())
        message: Message = made(row)
        return message

    def _read(self, frames: Sequence[bytes]) -> tuple[Any, ...]:
        """Return value, key, topic, headers as pairs, and id.

        Raises:
            ValueError: the frames do not fit; says why.
        """
        if len(frames) != self.count:
            raise ValueError(misfit(len(frames), self.names))
        headers: list[tuple[str, bytes]] | None = None
        if self._headers is not None and frames[self._headers]:
            headers = _read_headers(frames[self._headers])
        if self._named:
            named = [(name, frames[at]) for name, at in self._named]
            headers = named if headers is None else headers + named
        topic = None
        if self._topic is not None:
            try:
                topic = frames[self._topic].decode()
            except UnicodeDecodeError:
                raise ValueError("its topic is not UTF-8") from None
        key = frames[self._key] if self._key is not None else None
        identifier = frames[self._id] if self._id is not None else None
        return frames[self._value], key, topic, headers, identifier

    # -- writing ------------------------------------------------------------------------------

    def frames(self, fields: Fields) -> list[bytes]:
        """Return the frames of a row; null is written as an empty frame.

        Raises:
            ValueError: the row has not what a frame needs; says what.
        """
        value, key, topic, headers, identifier = fields
        rest = dict(headers or {})
        if identifier is not None and ID not in rest and self._id is not None:
            rest[ID] = identifier.hex().encode()
        named = {at: rest.pop(name, None) for name, at in self._named}
        for name in _OURS:
            rest.pop(name, None)
        frames = []
        content: bytes | None
        for at, name in enumerate(self.names):
            if at == self._value:
                content = value
            elif at == self._key:
                content = key
            elif at == self._topic:
                if topic is None:
                    raise ValueError("it has no topic")
                content = topic.encode()
            elif at == self._headers:
                content = None if headers is None else _write_headers(rest)
            else:
                content = named.get(at)
                if content is None and name == "sequence":
                    raise ValueError(f"it has no header {SEQUENCE} for the frame `sequence`")
            frames.append(content or b"")
        return frames


def misfit(count: int, names: Sequence[str]) -> str:
    """Return the reason why a message of so many frames is refused."""
    one = count == 1
    return f"it has {count:,} frame{'' if one else 's'}, and `frames` names {len(names)}"


def refused(frames: Sequence[bytes | memoryview], origin: str, reason: str) -> Message:
    """Return a message that is refused; its value is its frames as netstrings (`5:hello,`)."""
    whole = b"".join(b"%d:%b," % (len(frame), bytes(frame[:KEPT])) for frame in frames)
    if len(whole) > KEPT:
        reason += f"; here are the first {KEPT:,} bytes of its frames"
    return Message(whole[:KEPT], origin=origin, refused=reason)


def _read_headers(frame: bytes) -> list[tuple[str, bytes]]:
    if len(frame) > _MOST_HEADERS:
        raise ValueError(f"its headers have more than {_MOST_HEADERS:,} bytes")
    try:
        found = json.loads(frame)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("its headers are no JSON object")
    for name in _OURS:
        if name in found:
            raise ValueError(f"its headers hold {name}, which is ours")
    try:
        return [(_known(name), _text(value).encode()) for name, value in found.items()]
    except UnicodeEncodeError:
        raise ValueError("its headers hold half a surrogate pair") from None
    except RecursionError:
        raise ValueError("its headers are nested too deeply") from None


def _known(name: str) -> str:
    name.encode()
    return name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_headers(headers: Mapping[str, bytes]) -> bytes:
    texts = {}
    for name, value in headers.items():
        try:
            texts[name] = (value or b"").decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"the header {name!r} is not UTF-8; give it a frame of its own, `{HEADER}{name}`"
            ) from None
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()
