"""Source `delta`: the rows of a Delta table, and then each change of them."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Dataset, Level, Shown, SourceCapabilities
from mainstem_ingress import Receiver
from mainstem_lake.source import LakeSource

from mainstem_lake_delta.options import DeltaSourceOptions

_SHOWN = "packages/lake-delta/tests/test_delta_source_conformance.py"


class DeltaSource(LakeSource):
    """Reads a table as it is, and its change data feed from there."""

    options: DeltaSourceOptions

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Nothing is lost or doubled that the table's log still has."""
        kept = "versions and their files stay until they were read (`delta.logRetentionDuration`, vacuum)"
        return SourceCapabilities(
            ordered=True,
            assumptions=("the disk keeps what it says it has written", kept),
            shown=Shown(Level.EXACTLY_ONCE, _SHOWN),
        )

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [self.options.dataset()]

    def receiver(self) -> type[Receiver]:
        from mainstem_lake_delta.table import DeltaReceiver

        return DeltaReceiver
