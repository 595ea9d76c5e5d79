"""Sequence numbers of publishers: sees what is missing between the messages that came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mainstem import Options, option
from pydantic import field_validator, model_validator

_SIZES = {"uint16": 2, "uint32": 4, "uint64": 8}
#: Numbers in digits have no end; one longer than this is none.
_MOST_DIGITS = 19
#: What tells publishers apart is remembered, so it must be short, in bytes.
_MOST_NAME = 255
#: How many of the gaps that were told are remembered of each publisher, the latest.
_MOST_GAPS = 8
#: Of a wider one nothing comes late: the highest high-water mark that we know.
_WIDEST_GAP = 10_000_000


class SequenceOptions(Options):
    """Options of `sequence`."""

    frame: str = option(
        "sequence", description="The name, in `frames`, of the frame that holds the number."
    )
    format: Literal["digits", "uint16", "uint32", "uint64"] = option(
        "uint64",
        description="How it is written: `digits`, which fill the frame, or an unsigned integer of 2, "
        "4 or 8 bytes, which begins again with 0 after its largest.",
    )
    byte_order: Literal["big", "little"] = option(
        "big", description="The order of an integer's bytes; ZeroMQ's own examples write `big`."
    )
    at: int = option(
        0, ge=0, description="Where in the frame an integer begins, in bytes from its start."
    )
    per: list[str] = option(
        ["topic"],
        description="The names of the frames that tell a publisher's count from others. Each "
        "publisher sends its messages over one connection and counts up by one from message to "
        "message. Of frames without a `topic`, and by `[]`, there is one count.",
        example=["header.sensor"],
    )
    remember: int = option(
        1000,
        gt=0,
        advanced=True,
        description="How many counts are remembered; the one that was silent for longest is forgotten.",
    )

    @field_validator("per")
    @classmethod
    def _once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("a frame is there twice")
        return value

    @model_validator(mode="after")
    def _digits_fill(self) -> SequenceOptions:
        if self.format == "digits" and self.at:
            raise ValueError("digits fill their frame: leave out `at`")
        return self

    def check(self, names: Sequence[str]) -> None:
        """Check that the frames that this names are there.

        Raises:
            ValueError: one is not.
        """
        for name in (self.frame, *(n for n in self.per if n != "topic")):
            if name == "skip" or name not in names:
                raise ValueError(f"`frames` has no {name!r}; it has {', '.join(names)}")


class Gap(NamedTuple):
    """Numbers that did not come: the first and the last, and whose they are."""

    first: int
    last: int
    publisher: str

    @property
    def missing(self) -> int:
        """How many are missing; no more than a BIGINT holds."""
        return min(self.last - self.first + 1, 2**63 - 1)

    @property
    def reason(self) -> str:
        """What is wrong, in words."""
        whose = f" of {self.publisher}" if self.publisher else ""
        return f"the numbers{whose} go from {self.first - 1} to {self.last + 1}"


class Counts:
    """The highest number of each publisher, and the gaps below it that were told lately.

    Args:
        names: of the frames.
        told: what `encoded` gave for the last message that was stored.
    """

    def __init__(self, options: SequenceOptions, names: Sequence[str], told: str | None) -> None:
        self._at = names.index(options.frame)
        self._per = [names.index(name) for name in options.per if name in names]
        self._size = _SIZES.get(options.format)
        self._order = options.byte_order
        self._begin = options.at
        self._most = options.remember
        #: By publisher: the highest number, then the first and the last of each gap.
        self._seen = {k.encode("latin-1"): _read(n) for k, n in json.loads(told or "{}").items()}
        #: How many numbers were told as missing, less those that came late.
        self.lost = 0

    def number(self, frames: Sequence[bytes]) -> int:
        """Return the number that a message carries.

        Raises:
            ValueError: there is none; says why.
        """
        frame = frames[self._at]
        if self._size is None:
            if not frame.isdigit() or len(frame) > _MOST_DIGITS:
                raise ValueError(f"its sequence is no number in digits: {frame[:40]!r}")
            return int(frame)
        end = self._begin + self._size
        if len(frame) < end:
            raise ValueError(f"its sequence is cut off: {len(frame)} bytes, expected {end}")
        return int.from_bytes(frame[self._begin : end], self._order)

    def see(self, frames: Sequence[bytes], number: int) -> Gap | None:
        """Note a message's number; return what is missing before it.

        A number in a gap that was told comes late, as after a connection that broke. Another one that
        is not above the highest is a new beginning: nobody knows what is missing there.

        Raises:
            ValueError: what tells the publisher from others is too long.
        """
        publisher = self._publisher(frames)
        # The one that was silent for longest comes first.
        seen = self._seen.pop(publisher, None) or [number]
        self._seen[publisher] = seen
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        highest = seen[0]
        if number > highest:
            seen[0] = number
            if number == highest + 1:
                return None
            gap = Gap(highest + 1, number - 1, publisher.decode(errors="backslashreplace"))
            if gap.missing <= _WIDEST_GAP:
                seen += gap[:2]
                del seen[1 : -2 * _MOST_GAPS]
            self.lost += gap.missing
            return gap
        if number < highest:
            for at in range(1, len(seen), 2):
                first, last = seen[at : at + 2]
                if first <= number <= last:
                    left = [(first, number - 1), (number + 1, last)]
                    seen[at : at + 2] = [n for part in left if part[0] <= part[1] for n in part]
                    del seen[1 : -2 * _MOST_GAPS]
                    self.lost = max(0, self.lost - 1)
                    return None
            seen[:] = [number]
        return None

    def _publisher(self, frames: Sequence[bytes]) -> bytes:
        parts = [frames[at] for at in self._per]
        if len(parts) > 1:
            parts = [part.replace(b"\\", rb"\\").replace(b",", rb"\,") for part in parts]
        publisher = b", ".join(parts)
        if len(publisher) > _MOST_NAME:
            raise ValueError(f"what its count is known by has more than {_MOST_NAME} bytes")
        return publisher

    def encoded(self) -> str:
        """Return what a new one goes on from."""
        seen = {k.decode("latin-1"): n if n[1:] else n[0] for k, n in self._seen.items()}
        return json.dumps(seen)


def _read(told: int | list[int]) -> list[int]:
    """Return a publisher's numbers; one without gaps is written as its highest alone."""
    return told if isinstance(told, list) else [told]
