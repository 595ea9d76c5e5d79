"""Source `nats_bucket`: the revisions of a key-value bucket, as a changelog."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem import (
    Changelog,
    Lag,
    Level,
    Measurable,
    Reached,
    Rewindable,
    Shape,
    Shown,
    Source,
    SourceCapabilities,
    SourceContext,
)

from mainstem_broker_nats.source.jetstream import StreamLog
from mainstem_broker_nats.source.options import BucketOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BucketSource(Source, Measurable, Rewindable):
    """Reads a key-value bucket: what it holds, and then each put, delete and purge."""

    options: BucketOptions

    def __init__(self, options: BucketOptions) -> None:
        super().__init__(options)
        subjects = [f"$KV.*.{key}" for key in options.keys]
        self._log = StreamLog(options, f"KV_{options.bucket}", subjects, "earliest")

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """The newest revision of each key is always there; older ones are no loss to a table."""
        newest = (
            "the newest revision of a key is enough: older ones are read for as long as the bucket's "
            "history has them"
        )
        markers = (
            "the marker of a deleted key stays in the bucket until it was read, and what expires leaves "
            "one (`LimitMarkerTTL`): else the key stays in tables"
        )
        return SourceCapabilities(
            ordered=True,
            assumptions=(newest, markers),
            shown=Shown(
                Level.EXACTLY_ONCE, "packages/broker-nats/tests/test_nats_kv_conformance.py"
            ),
        )

    def shape(self) -> Shape:
        return Changelog(
            "key STRING, value BINARY, revision BIGINT, created TIMESTAMP, operation STRING",
            key=["key"],
            sequence="revision",
        )

    def load(self, ctx: SourceContext) -> DataFrame:
        return ctx.read_planned(self._log.reading(ctx, "changes", "ignore"))

    def end(self, home: Path) -> Mapping[str, str]:
        """Return the bucket's last revision."""
        return self._log.end()

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return the revisions that are not read, and the age of the oldest."""
        return self._log.lag(reached)

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> BucketSource:
        """Return this source from the oldest revision there is, from a time, or after an offset."""
        other = copy.copy(self)
        other._log = self._log.starting_at(point)
        return other

    def gone(self, since: Reached) -> str:
        """Return what can't be read again: a bucket keeps the newest revision of each key."""
        return self._log.gone(since, superseded=True)
