"""Source `iceberg`: the rows of an Iceberg table, and then what each snapshot has changed."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import Receiver
from mainstem_lake.source import LakeSource

from mainstem_lake_iceberg.options import IcebergSourceOptions

_SHOWN = "packages/lake-iceberg/tests/test_iceberg_source_conformance.py"


class IcebergSource(LakeSource):
    """Reads a table as it is, and compares the files that each later snapshot adds and removes."""

    options: IcebergSourceOptions

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Nothing is lost or doubled of snapshots that the table still has."""
        kept = "snapshots and their files stay until they were read (`mainstem iceberg expire`)"
        return SourceCapabilities(
            ordered=True,
            assumptions=("the disk keeps what it says it has written", kept),
            shown=Shown(Level.EXACTLY_ONCE, _SHOWN),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_lake_iceberg.table import IcebergReceiver

        return IcebergReceiver
