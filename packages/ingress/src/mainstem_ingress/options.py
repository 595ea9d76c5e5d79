"""The options that every source on the ingress log has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from mainstem import (
    Dataset,
    Duration,
    LocalPath,
    Options,
    Size,
    option,
    read_duration,
    read_size,
    write_duration,
)
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema


def _read_keep(value: Any) -> timedelta | int:
    for read in (read_duration, read_size):
        try:
            found: timedelta | int = read(value)
        except ValueError:
            continue
        return found
    raise ValueError("expected a duration such as '7 days' or a size such as '20 GB'")


def _write_keep(value: timedelta | int) -> str | int:
    return write_duration(value) if isinstance(value, timedelta) else value


Keep = Annotated[
    timedelta | int,
    BeforeValidator(_read_keep),
    PlainSerializer(_write_keep),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["7 days", "20 GB"]}),
]


class IngressOptions(Options):
    """Options of sources on the ingress log."""

    receivers: int = option(
        1,
        ge=1,
        le=256,
        description="How many processes take messages at once. Each keeps the order in which it was "
        "given them; more than one trade order for speed.",
    )
    folder: LocalPath | None = option(
        None,
        description="Where the log is kept; a folder of the pipeline's checkpoint when left out. On a "
        "cluster every machine must see it.",
    )
    keep: Keep | None = option(
        None,
        description="How much of the log stays after all queries have read it, as a length of time "
        "or a size: what a new query, or a replay, can read. When left out, nothing does.",
        example="7 days",
    )
    high_water: Size = option(
        4 * 10**9,
        gt=0,
        description="The most unread bytes of the log; above it no messages are taken. Receivers "
        "share it evenly.",
    )
    max_message: Size = option(
        64 * 2**20,
        gt=0,
        le=512 * 2**20,
        description="A message with a larger value is refused: what comes out of `rejected` is its "
        "beginning.",
    )
    duplicates_within: Duration = option(
        timedelta(hours=1),
        description="For how long the ids of stored messages are remembered at least, so that a "
        "second copy is dropped; `0 s` never drops any. Time in which nothing can come, because the "
        "receiver or the external system is down, does not count.",
    )
    duplicates_most: int = option(
        2_000_000,
        ge=1000,
        description="How many ids each receiver remembers at least, should more come within "
        "`duplicates_within`; it takes some 70 bytes of memory for each, 110 at worst.",
        advanced=True,
    )
    max_rows: int = option(
        1_000_000, gt=0, description="About the most rows in one batch: whole segments are read."
    )
    max_bytes: Size = option(
        512 * 2**20, gt=0, description="About the most bytes in one batch: whole segments are read."
    )
    on_new_columns: Literal["evolve", "fail"] = option(
        "evolve",
        description="What becomes of messages that were stored when the source had other columns: "
        "`evolve`: a column that is new is null in them, and one that is gone is left out; `fail`: the "
        "run ends. A value that does not fit into its column's new type ends it in any case.",
        advanced=True,
    )
    segment_bytes: Size = option(
        16 * 2**20,
        gt=0,
        le=512 * 2**20,
        description="A segment is written when it has so many bytes,",
        advanced=True,
    )
    segment_rows: int = option(
        20_000,
        gt=0,
        description="or so many rows; more are in one where its source goes on after all of them alone;",
        advanced=True,
    )
    linger: Duration = option(
        timedelta(milliseconds=20),
        description="or when its first message has waited so long.",
        advanced=True,
    )

    def assumed(self, *, remembers: bool) -> list[str]:
        """Return what sources assume whose external system gives messages again.

        Args:
            remembers: whether copies are known by their ids.
        """
        found = ["the disk keeps what it says it has written"]
        if remembers:
            horizon = write_duration(self.duplicates_within)
            found.append(
                f"a copy comes within {horizon}, and before {self.duplicates_most:,} other messages"
            )
        if self.receivers > 1:
            found.append(
                f"the order of messages does not matter: {self.receivers} receivers share them"
            )
        return found

    def datasets(self) -> Sequence[Dataset]:
        """Return what the options name, as catalogues of data know it; nothing where it has no name."""
        return ()
