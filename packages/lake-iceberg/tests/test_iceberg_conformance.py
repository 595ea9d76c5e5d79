"""The standard tests of sinks on Iceberg tables."""

from __future__ import annotations

from iceberg_tables import catalog, held
from mainstem_testkit import SinkSuite
from pyiceberg.exceptions import NoSuchTableError


class IcebergSuite(SinkSuite):
    """A table in a folder of the test's own."""

    __test__ = False
    use = "iceberg"
    deliver = "transactional"
    columns = "id BIGINT, name STRING"
    numbers = iter(range(1_000_000))

    def prepare(self):
        self.path = self.place / f"lake-{next(self.numbers)}"

    def options(self):
        return {"path": str(self.path), "table": "shop.rows", "give_up": "8 s"}

    def rows(self, schema):
        if not self.path.exists():
            return []
        try:
            table = catalog(self.path).load_table("shop.rows")
        except NoSuchTableError:
            return []
        rows = held(table).to_pylist(maps_as_pydicts="strict")
        return [{n: v for n, v in row.items() if not n.startswith("_")} for row in rows]


class TestAppend(IcebergSuite):
    __test__ = True


class TestMerge(IcebergSuite):
    __test__ = True
    key = ("id",)
