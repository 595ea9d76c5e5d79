"""Sink `iceberg`: events into an Iceberg table, once, and tables kept in step by rewritten files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Level, Shown, SinkCapabilities
from mainstem_lake.sink import LakeSink

from mainstem_lake_iceberg.options import IcebergOptions

if TYPE_CHECKING:
    from mainstem_lake.table import LakeTable

_SHOWN = "packages/lake-iceberg/tests/test_iceberg_conformance.py"


class IcebergSink(LakeSink):
    """Commits a snapshot with the batch's number among the table's properties."""

    options: IcebergOptions
    format = "Iceberg"
    capabilities = SinkCapabilities(
        assumptions=(
            "the catalog and the table's storage keep what they have taken, and the table's properties",
        ),
        shown={"transactional": Shown(Level.EXACTLY_ONCE, _SHOWN)},
    )

    def table(self) -> LakeTable:
        from mainstem_lake_iceberg.table import Table

        return Table(self.options)
