"""The standard tests of sinks on Delta tables."""

from __future__ import annotations

from deltalake import DeltaTable
from mainstem_testkit import SinkSuite


class DeltaSuite(SinkSuite):
    """A table in a folder of the test's own."""

    __test__ = False
    use = "delta"
    deliver = "transactional"
    columns = "id BIGINT, name STRING"
    numbers = iter(range(1_000_000))

    def prepare(self):
        self.path = self.place / f"table-{next(self.numbers)}"

    def options(self):
        return {"path": str(self.path), "give_up": "8 s"}

    def rows(self, schema):
        if not DeltaTable.is_deltatable(str(self.path)):
            return []
        rows = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")
        return [{n: v for n, v in row.items() if not n.startswith("_")} for row in rows]


class TestAppend(DeltaSuite):
    __test__ = True


class TestMerge(DeltaSuite):
    __test__ = True
    key = ("id",)
