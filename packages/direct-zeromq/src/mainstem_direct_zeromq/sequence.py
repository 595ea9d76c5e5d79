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

    def encoded(self) -> str:
        """Return it as the log keeps it."""
        whose = f" of {self.publisher}" if self.publisher else ""
        reason = f"the numbers{whose} go from {self.first - 1} to {self.last + 1}"
        return json.dumps(
            {"from": str(self.first), "to": str(self.last), "count": self.missing, "reason": reason}
        )


class Counts:
    """The last number of each publisher.

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
        self._last = {k.encode("latin-1"): n for k, n in json.loads(told or "{}").items()}

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

        A number that is not above the last is a new beginning: nobody knows what is missing there.

        Raises:
            ValueError: what tells the publisher from others is too long.
        """
        per = self._per
        publisher = frames[per[0]] if len(per) == 1 else b", ".join([frames[at] for at in per])
        if len(publisher) > _MOST_NAME:
            raise ValueError(f"what its count is known by has more than {_MOST_NAME} bytes")
        last = self._last.pop(publisher, None)
        self._last[publisher] = number
        if last is None:
            if len(self._last) > self._most:
                del self._last[next(iter(self._last))]
            return None
        if number <= last + 1:
            return None
        return Gap(last + 1, number - 1, publisher.decode(errors="backslashreplace"))

    def encoded(self) -> str:
        """Return what a new one goes on from."""
        return json.dumps({k.decode("latin-1"): n for k, n in self._last.items()})
