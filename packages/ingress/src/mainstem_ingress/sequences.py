"""Numbered messages: what is missing between those that came, by whoever counts them."""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from mainstem import Options, option
from pydantic import model_validator

_SIZES = {"uint16": 2, "uint32": 4, "uint64": 8}
#: Numbers in digits have no end; one longer than this is none.
_MOST_DIGITS = 19
#: What tells those who count apart is remembered, so it must be short, in bytes.
_MOST_NAME = 255
#: How many of the gaps that were reported are remembered of each count, the latest.
_MOST_GAPS = 8
#: Of a wider one nothing comes late.
_WIDEST_GAP = 10_000_000


class NumberOptions(Options):
    """Options that say where in some bytes a number is."""

    format: Literal["digits", "uint16", "uint32", "uint64"] = option(
        "uint64",
        description="How it is written: `digits`, which are all there is, or an unsigned integer of 2, "
        "4 or 8 bytes, which begins again with 0 after its largest.",
    )
    byte_order: Literal["big", "little"] = option(
        "big", description="The order of an integer's bytes."
    )
    at: int = option(0, ge=0, description="Where an integer begins, in bytes from the start.")

    @model_validator(mode="after")
    def _digits_fill(self) -> NumberOptions:
        if self.format == "digits" and self.at:
            raise ValueError("digits are all there is: leave out `at`")
        return self

    def number(self, data: bytes) -> int:
        """Return the number that some bytes have.

        Raises:
            ValueError: there is none; says why.
        """
        size = _SIZES.get(self.format)
        if size is None:
            if not data.isdigit() or len(data) > _MOST_DIGITS:
                raise ValueError(f"its sequence is no number in digits: {data[:40]!r}")
            return int(data)
        end = self.at + size
        if len(data) < end:
            raise ValueError(f"its sequence is cut off: {len(data)} bytes, expected {end}")
        return int.from_bytes(data[self.at : end], self.byte_order)


class Gap(NamedTuple):
    """Numbers that did not come: the first and the last, and whose they are."""

    first: int
    last: int
    name: str

    @property
    def missing(self) -> int:
        """How many are missing; no more than a BIGINT holds."""
        return min(self.last - self.first + 1, 2**63 - 1)

    @property
    def reason(self) -> str:
        """What is wrong, in words."""
        whose = f" of {self.name}" if self.name else ""
        return f"the numbers{whose} go from {self.first - 1} to {self.last + 1}"


class Sequences:
    """The highest number of each count, and the gaps below it that were reported lately.

    Args:
        remember: how many counts; the one that was silent for longest is forgotten.
        cursor: what `encoded` gave for the last message that was stored; None for a beginning.
    """

    def __init__(self, remember: int, cursor: str | None = None) -> None:
        self._most = remember
        #: By name: the highest number, then the first and the last of each gap.
        self._seen = {k.encode("latin-1"): _read(n) for k, n in json.loads(cursor or "{}").items()}
        #: How many numbers were reported as missing, less those that came late.
        self.lost = 0

    def see(self, name: bytes, number: int) -> Gap | None:
        """Note a message's number; return what is missing before it.

        A number in a gap that was reported comes late, as after a connection that broke. Another one
        that is not above the highest is a new beginning: nobody knows what is missing there.

        Args:
            name: whose count it is.
            number: the message's.

        Raises:
            ValueError: the name is too long.
        """
        if len(name) > _MOST_NAME:
            raise ValueError(f"what its count is known by has more than {_MOST_NAME} bytes")
        # The one that was silent for longest comes first.
        seen = self._seen.pop(name, None) or [number]
        self._seen[name] = seen
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        highest = seen[0]
        if number > highest:
            seen[0] = number
            if number == highest + 1:
                return None
            gap = Gap(highest + 1, number - 1, name.decode(errors="backslashreplace"))
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

    def encoded(self) -> str:
        """Return what a new one goes on from."""
        seen = {k.decode("latin-1"): n if n[1:] else n[0] for k, n in self._seen.items()}
        return json.dumps(seen)


def _read(told: int | list[int]) -> list[int]:
    """Return a count's numbers; one without gaps is written as its highest alone."""
    return told if isinstance(told, list) else [told]
