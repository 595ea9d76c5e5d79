"""The options that every sink on egress has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from mainstem import Dataset, Options, PositiveDuration, Size, option


class EgressOptions(Options):
    """Options of sinks that send messages."""

    partitions: int | None = option(
        None,
        gt=0,
        description="How many connections send in parallel at most; as many as the batch has partitions "
        "when left out.",
    )
    order: Literal["none", "key", "log"] = option(
        "key",
        description="`key`: a task's messages of a key keep their order: one that is sent again takes "
        "the later ones of its key with it. `log`: also bring each key's messages together first, in the "
        "order of their log (columns origin, partition, position), which costs a shuffle. `none`: one "
        "that is sent again may come after later ones.",
    )
    in_flight: int = option(
        1000,
        gt=0,
        le=100_000,
        advanced=True,
        description="How many messages of a connection may be without an answer at a time.",
    )
    in_flight_bytes: Size = option(
        32 * 2**20,
        gt=0,
        advanced=True,
        description="How many bytes of them; a larger message is sent alone.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long the oldest message in flight may have no answer before the connection is "
        "made anew.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry without any progress before the batch fails.",
    )

    def datasets(self) -> Sequence[Dataset]:
        """Return what the options name, as catalogues of data know it; nothing where it has no name."""
        return ()
