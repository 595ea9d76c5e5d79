"""Sequence numbers of publishers: which frames have them, and tell publishers apart."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import option
from mainstem_ingress import Gap, NumberOptions, Sequences
from pydantic import field_validator


class SequenceOptions(NumberOptions):
    """Options of `sequence`."""

    frame: str = option(
        "sequence", description="The name, in `frames`, of the frame that holds the number."
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

    def check(self, names: Sequence[str]) -> None:
        """Check that the frames that this names are there.

        Raises:
            ValueError: one is not.
        """
        for name in (self.frame, *(n for n in self.per if n != "topic")):
            if name == "skip" or name not in names:
                raise ValueError(f"`frames` has no {name!r}; it has {', '.join(names)}")


class Counts(Sequences):
    """The counts of publishers, by the frames of their messages.

    Args:
        names: of the frames.
        cursor: what `encoded` gave for the last message that was stored.
    """

    def __init__(self, options: SequenceOptions, names: Sequence[str], cursor: str | None) -> None:
        super().__init__(options.remember, cursor)
        self._options = options
        self._at = names.index(options.frame)
        self._per = [names.index(name) for name in options.per if name in names]

    def gap(self, frames: Sequence[bytes]) -> Gap | None:
        """Note the number of a message; return what is missing before it.

        Raises:
            ValueError: there is no number, or what tells the publisher from others is too long.
        """
        number = self._options.number(frames[self._at])
        parts = [frames[at] for at in self._per]
        if len(parts) > 1:
            parts = [part.replace(b"\\", rb"\\").replace(b",", rb"\,") for part in parts]
        return self.see(b", ".join(parts), number)
