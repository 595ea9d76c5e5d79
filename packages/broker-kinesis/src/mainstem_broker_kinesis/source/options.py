"""The options of the source `kinesis`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from mainstem import PositiveDuration, Size, option
from mainstem_ingress import IngressOptions
from pydantic import AwareDatetime, model_validator

from mainstem_broker_kinesis.connection import ConnectionOptions

#: What AWS gives one shard: reads each second, bytes each second, records in one read.
READS, BYTES, RECORDS = 5, 2 * 2**20, 10_000


class KinesisSourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `kinesis`."""

    start: Literal["earliest", "latest"] | AwareDatetime = option(
        "earliest",
        description="Where a new log begins: with the `earliest` record that the stream has, with what "
        "comes from now on (`latest`), or with what came at a time or later, written with its zone. It "
        "is looked at once, before the first read.",
        example="2026-11-22T06:00:00Z",
    )
    aggregated: bool = option(
        True,
        description="Whether records that producers have packed (Kinesis Producer Library) are unpacked; "
        "a broken one comes out of `rejected`.",
    )
    ids: Literal["never", "when_given"] = option(
        "never",
        description="`when_given`: records are told apart by the identity that the sink `kinesis` packs "
        "with them, and second copies within `duplicates_within` are dropped.",
    )
    on_loss: Literal["fail", "report"] = option(
        "fail",
        description="What happens when the stream has dropped records that were not read yet: the run "
        "fails, or a row of the output `lost` says so and reading goes on with what is there.",
    )
    align: PositiveDuration | None = option(
        None,
        ge=timedelta(minutes=1),
        description="A shard waits while it is further than this ahead of the slowest one, by when "
        "records arrived: so that the rows of slow shards are not late. A minute at least, with several "
        "receivers three, since they know by the minute how far the shards of others are; of a shard "
        "that another has not begun to read they do not know, and one that is not read stops all others.",
        example="10 minutes",
    )
    poll_every: PositiveDuration = option(
        timedelta(milliseconds=250),
        description="How often a shard is read that had nothing new. AWS allows all readers of a shard "
        f"{READS} reads a second together.",
    )
    discover_every: PositiveDuration = option(
        timedelta(minutes=1),
        advanced=True,
        description="How often the stream's shards are listed, beside what the end of a shard tells.",
    )
    reads_per_second: float = option(
        READS,
        gt=0,
        advanced=True,
        description="The most reads of one shard in a second.",
    )
    bytes_per_second: Size = option(
        BYTES,
        gt=0,
        advanced=True,
        description="The most bytes read of one shard in a second, after each read that has more.",
    )
    records_per_read: int = option(
        RECORDS, ge=1, le=RECORDS, advanced=True, description="The most records of one read."
    )
    fetchers: int = option(
        8,
        ge=1,
        le=256,
        advanced=True,
        description="How many shards a receiver reads at once; each answer takes up to 10 MiB of memory.",
    )

    @model_validator(mode="after")
    def _known_in_time(self) -> Self:
        if self.align is not None and self.receivers > 1 and self.align < timedelta(minutes=3):
            raise ValueError("align is 3 minutes at least with several receivers")
        return self
