"""Source `nats_bucket`: the revisions of a key-value bucket, as a changelog."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mainstem import Changelog, Level, Shape, Shown, SourceCapabilities
from mainstem.positions import PositionSource

from mainstem_broker_nats.source.options import BucketOptions

if TYPE_CHECKING:
    from mainstem.positions import PositionLog


class BucketSource(PositionSource):
    """Reads a key-value bucket: what it holds, and then each put, delete and purge."""

    options: BucketOptions
    columns = (
        "key STRING, value BINARY, revision BIGINT, created TIMESTAMP, operation STRING, "
        "_change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP"
    )
    superseded = True

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

    def opener(self, node: str) -> Callable[[str], PositionLog]:
        from mainstem_broker_nats.source.log import StreamLog

        options = self.options
        subjects = tuple(f"$KV.*.{key}" for key in options.keys)
        return partial(StreamLog, options, f"KV_{options.bucket}", subjects, node, "changes")
