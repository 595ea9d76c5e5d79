"""Where a message ends in a stream of bytes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from mainstem import Options, option
from pydantic import field_validator

#: How much of a message that is too large is kept, in bytes.
_KEPT = 64 * 1024
#: RFC 6587 has no limit; a count of more digits is none.
_DIGITS = 10


class LengthOptions(Options):
    """Options of `length`."""

    bytes: Literal[1, 2, 4, 8] = option(4, description="How many bytes a length has.")
    byte_order: Literal["big", "little"] = option("big", description="Their order.")
    includes_itself: bool = option(False, description="Whether a length counts its own bytes, too.")


class FramingOptions(Options):
    """Options that say where a message ends."""

    framing: Literal["lines", "delimiter", "length", "octets"] = option(
        "lines",
        description="Where a message ends: `lines`, at a line's end (LF or CRLF); `delimiter`, at some "
        "bytes; `length`, where the length before it says; `octets`, the same in digits and a space "
        "(syslog's octet counting, RFC 6587).",
    )
    delimiter: str = option(
        "\0",
        min_length=1,
        description="The bytes of `framing: delimiter`, as text of UTF-8.",
        advanced=True,
    )
    length: LengthOptions = option(
        LengthOptions, description="The lengths of `framing: length`.", advanced=True
    )

    @field_validator("delimiter")
    @classmethod
    def _encodes(cls, value: str) -> str:
        value.encode()
        return value


class Frame(NamedTuple):
    """A message, and why it is refused, if it is."""

    data: bytes
    refused: str | None = None


class FramingError(Exception):
    """No message can be found in the bytes any more; says why.

    Args:
        frames: the messages before.
    """

    def __init__(self, why: str, frames: list[Frame]) -> None:
        super().__init__(why)
        self.frames = frames


class Framer:
    """Cuts one connection's bytes.

    Attributes:
        held: how many bytes of a message have come that is not whole.

    Args:
        options: where messages end.
        most: a larger message is refused, in bytes; its beginning is kept.
    """

    def __init__(self, options: FramingOptions, most: int) -> None:
        self._most = most
        #: What belongs to no message yet, in pieces, which are put together once that may be one.
        self._pieces: list[bytes] = []
        self.held = 0
        #: How many bytes there must be before anything can be said of them; the last of them.
        self._need, self._tail = 0, b""
        #: How many bytes are still to be left out of a message that is too large; None for none. For
        #: messages that end at some bytes just whether.
        self._skip: int | None = None
        self._length = options.length
        self._octets = options.framing == "octets"
        self._end = {"lines": b"\n", "delimiter": options.delimiter.encode()}.get(options.framing)
        self._lines = options.framing == "lines"
        #: How many bytes may belong to an end that has not come whole.
        self._slack = 1 if self._lines else len(self._end or b"") - 1

    def feed(self, data: bytes) -> list[Frame]:
        """Return the messages that end in some bytes more.

        Raises:
            FramingError: a length can't be one.
        """
        if self._waits(data):
            self._pieces.append(data)
            self.held += len(data)
            return []
        whole = b"".join([*self._pieces, data])
        self._keep(b"")
        return self._by_end(whole) if self._end is not None else self._by_length(whole)

    def _waits(self, data: bytes) -> bool:
        """Whether what is held and some bytes more are no message, and not too large for one."""
        if self._skip is not None:
            return False
        if self._end is None:
            return self.held + len(data) < self._need
        joined = self._tail + data
        if self._end in joined or self.held + len(data) > self._most + self._slack:
            return False
        self._tail = joined[len(joined) - len(self._end) + 1 :]
        return True

    def _keep(self, rest: bytes, need: int = 0) -> None:
        """Hold what belongs to no message yet."""
        self._pieces, self.held, self._need = [rest] if rest else [], len(rest), need
        if self._end is not None:
            self._tail = rest[max(0, len(rest) - len(self._end) + 1) :]

    def _by_end(self, data: bytes) -> list[Frame]:
        assert self._end is not None  # noqa: S101
        *found, rest = data.split(self._end)
        if self._lines:
            found = [line[:-1] if line.endswith(b"\r") else line for line in found]
        frames = list(map(Frame, found))
        if self._skip is not None and found:
            frames, self._skip = frames[1:], None  # the end of what is refused already
        if any(len(frame.data) > self._most for frame in frames):
            frames = [self._large(f.data) if len(f.data) > self._most else f for f in frames]
        if self._skip is not None:
            rest = rest[-len(self._end) + 1 :] if len(self._end) > 1 else b""
        elif len(rest) > self._most + self._slack:
            frames.append(self._large(rest[: len(rest) - self._slack]))
            self._skip, rest = 0, rest[-len(self._end) + 1 :] if len(self._end) > 1 else b""
        self._keep(rest)
        return frames

    def _large(self, data: bytes) -> Frame:
        return Frame(data[:_KEPT], f"it has more than {self._most:,} bytes (max_message)")

    def _by_length(self, data: bytes) -> list[Frame]:
        at = need = 0
        frames: list[Frame] = []
        while True:
            if self._skip:
                left = len(data) - at
                at += min(left, self._skip)
                self._skip -= min(left, self._skip)
                if self._skip:
                    break
                self._skip = None
            try:
                head = self._head(data, at)
            except ValueError as error:
                raise FramingError(str(error), frames) from None
            if head is None:
                break
            begin, size = head
            if size > self._most:
                if len(data) - begin < min(size, _KEPT):
                    need = begin + min(size, _KEPT) - at
                    break  # its beginning is kept
                frames.append(self._large(data[begin : begin + min(size, _KEPT)]))
                at, self._skip = begin, size
                continue
            if len(data) < begin + size:
                need = begin + size - at
                break
            frames.append(Frame(data[begin : begin + size]))
            at = begin + size
        self._keep(data[at:], need)
        return frames

    def _head(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Return where a message begins and how long it is; None if that is not known yet.

        Raises:
            ValueError: it can't be.
        """
        if self._octets:
            digits, space, _ = data[at : at + _DIGITS + 1].partition(b" ")
            if ((digits or space) and not digits.isdigit()) or len(digits) > _DIGITS:
                raise ValueError(f"expected a length in digits, not {digits[:20]!r}")
            return (at + len(digits) + 1, int(digits)) if space and digits else None
        told = self._length
        if len(data) < at + told.bytes:
            return None
        size = int.from_bytes(data[at : at + told.bytes], told.byte_order)
        size -= told.bytes if told.includes_itself else 0
        if size < 0:
            raise ValueError("a length does not even count itself")
        return at + told.bytes, size

    def last(self, *, whole: bool) -> Frame | None:
        """Return what is left when no more comes.

        Args:
            whole: whether a last line without an end is one.
        """
        rest = b"".join(self._pieces)
        self._keep(b"")
        if self._skip is not None or not rest:
            return None
        if whole and self._end is not None:
            return Frame(rest[:-1] if self._lines and rest.endswith(b"\r") else rest)
        return Frame(rest[:_KEPT], "the stream ended within it")


def framed(options: FramingOptions, data: bytes) -> bytes:
    """Return a message as it is sent.

    Raises:
        ValueError: its bytes say that it ends before it does, or it is too long for its length.
    """
    if options.framing == "octets":
        return b"%d %b" % (len(data), data)
    if options.framing == "length":
        told = options.length
        size = len(data) + (told.bytes if told.includes_itself else 0)
        if size >= 1 << (8 * told.bytes):
            raise ValueError(f"its length has more than {told.bytes} bytes")
        return size.to_bytes(told.bytes, told.byte_order) + data
    end = b"\n" if options.framing == "lines" else options.delimiter.encode()
    if (data + end).find(end) != len(data) or (options.framing == "lines" and data.endswith(b"\r")):
        raise ValueError("it has in it what a message ends at (framing)")
    return data + end
