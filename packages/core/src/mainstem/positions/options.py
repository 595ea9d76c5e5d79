"""Options of sources on a position log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from mainstem.contracts.abilities import Dataset
from mainstem.contracts.options import Duration, Options, option


class PositionOptions(Options):
    """What all sources on a position log share."""

    give_up: Duration = option(
        timedelta(minutes=1),
        ge=timedelta(0),
        description="How long a server that is away is waited for before the batch fails.",
    )
    partitions: int | None = option(
        None,
        ge=1,
        le=1024,
        description="How many tasks read a batch at once, each over a connection of its own; as many as "
        "Spark has cores when left out.",
    )
    max_rows: int = option(
        500_000,
        gt=0,
        description="The most rows in one batch: it spans so many positions of the log at most.",
    )
    rows_per_task: int = option(
        5_000,
        ge=1,
        advanced=True,
        description="A task reads so many positions of a batch at least, where there are as many: each "
        "costs a connection.",
    )

    def datasets(self) -> Sequence[Dataset]:
        """Return what the options name, as catalogues of data know it; nothing where it has no name."""
        return ()


OnLoss = Literal["fail", "report"]
