"""The options of the source `zeromq`."""

from __future__ import annotations

from typing import Literal

from mainstem import Size, option
from mainstem_ingress import IngressOptions

from mainstem_direct_zeromq.connection import LinkOptions
from mainstem_direct_zeromq.source.sequence import SequenceOptions


class ZeroMQSourceOptions(LinkOptions, IngressOptions):
    """Options of the source `zeromq`."""

    socket: Literal["pull", "sub"] = option(
        "pull", description="The kind of socket: `pull` for PUSH peers, `sub` for PUB peers."
    )
    topics: list[str] = option(
        [""],
        min_length=1,
        description="What a `sub` socket subscribes to: how the first frame begins; `''` is all.",
        example=["weather.", "traffic."],
    )
    sequence: SequenceOptions | None = option(
        None,
        description="Where the number is by which a publisher counts its messages: what is missing "
        "then comes out of the output `lost`. A frame `sequence` alone says `{}`.",
        example={"frame": "sequence", "format": "uint64", "per": ["topic"]},
    )
    high_water_mark: int = option(
        10_000,
        gt=0,
        le=10_000_000,
        description="How many messages of each peer libzmq holds at most, and how many this receiver "
        "takes at most before it stores them: a crash loses no more of those. Memory is needed for "
        "so many messages of each peer.",
    )
    max_frame: Size = option(
        128 * 2**20,
        gt=0,
        description="A peer that sends a larger frame is cut off at once: the frame is lost, and what "
        "is in flight with it. `max_message` can't be more.",
    )

    def counted(self) -> SequenceOptions | None:
        """Return where messages have numbers; None if they have none."""
        if self.sequence is None and "sequence" in self.layout():
            return SequenceOptions()
        return self.sequence
