"""Source and receiver pass the standard tests, by rows of a table."""

from __future__ import annotations

import pyarrow as pa
from iceberg_tables import catalog
from mainstem_testkit import ReceiverSuite, SourceSuite


class Tables:
    use = "iceberg"
    output = "rows"
    numbers = iter(range(1_000_000))

    def prepare(self):
        self.path = self.place / f"lake-{next(self.numbers)}"
        made = catalog(self.path)
        made.create_namespace("shop")
        self.table = made.create_table("shop.rows", pa.schema([("n", pa.int64())]))

    def options(self):
        return {
            "path": str(self.path),
            "table": "shop.rows",
            "key": ["n"],
            "schema": "n BIGINT",
            "poll": "100 ms",
            "keep": "1 day",
        }

    def put(self, numbers):
        # Each commit is slower than the one before.
        step = 1 if len(numbers) < 30 else 50
        for start in range(0, len(numbers), step):
            part = pa.array(numbers[start : start + step], pa.int64())
            self.table.append(pa.table({"n": part}))


class TestReceiver(Tables, ReceiverSuite):
    def number(self, message):
        return message.extra[1]["n"]

    def permanent(self):
        return {
            "no such table": {"table": "shop.others"},
            "no such column": {"key": ["m"], "schema": "m BIGINT"},
        }


class TestRows(Tables, SourceSuite):
    wrong_options = {
        "receivers": {"receivers": 2},
        "poll": {"poll": "0 s"},
        "snapshot": {"snapshot": "sometimes"},
    }

    def number(self, row):
        return row["n"]

    # No `limited`: what a version changes has no order to be cut in, and is one segment.
