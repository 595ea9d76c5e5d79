"""Sink `delta`: events into a Delta table, once, and tables kept in step by merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem import Dataset, Level, Located, Shown, SinkCapabilities
from mainstem.columns import quoted
from mainstem_lake.sink import LakeSink

from mainstem_lake_delta.options import DeltaOptions

if TYPE_CHECKING:
    from mainstem_lake.table import LakeTable

#: The folder of a null.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_SHOWN = "packages/lake-delta/tests/test_delta_conformance.py"


class DeltaSink(LakeSink, Located):
    """Commits with the batch's number, as Delta's own transaction identifiers."""

    options: DeltaOptions
    format = "Delta"
    capabilities = SinkCapabilities(
        assumptions=(
            "the table's storage keeps what it has taken, and entries of transactions in its log",
        ),
        shown={"transactional": Shown(Level.EXACTLY_ONCE, _SHOWN)},
    )

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [self.options.dataset()]

    def table(self) -> LakeTable:
        from mainstem_lake_delta.table import Table

        return Table(self.options)

    def unfit(self, kinds: Mapping[str, str], table: LakeTable) -> dict[str, str]:
        """Refuse texts that become folders which would be read as null."""
        found = {}
        for name in table.partition_by:
            if kinds.get(name) == "string":
                found[f"{quoted(name)} = ''"] = f"{name} is empty, which a folder's name can't be"
                found[f"{quoted(name)} = '{_NULL}'"] = f"{name} is {_NULL}, which would be null"
        return found
