"""Source and receiver pass the standard tests, by rows of a table."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from mainstem_testkit import ReceiverSuite, SourceSuite


class Tables:
    use = "delta"
    output = "rows"
    numbers = iter(range(1_000_000))

    def prepare(self):
        self.path = self.place / f"table-{next(self.numbers)}"
        DeltaTable.create(
            str(self.path),
            schema=pa.schema([("n", pa.int64())]),
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def options(self):
        return {
            "path": str(self.path),
            "key": ["n"],
            "schema": "n BIGINT",
            "poll": "100 ms",
            "keep": "1 day",
        }

    def put(self, numbers):
        numbers = list(numbers)
        each = (
            1 if len(numbers) < 100 else 50
        )  # a commit is dear, and the more so the more there are
        for at in range(0, len(numbers), each):
            rows = pa.table({"n": pa.array(numbers[at : at + each], pa.int64())})
            write_deltalake(str(self.path), rows, mode="append")


class TestReceiver(Tables, ReceiverSuite):
    def number(self, message):
        return message.extra[1]["n"]

    def permanent(self):
        write_deltalake(str(self.place / "silent"), pa.table({"n": [1]}), mode="overwrite")
        return {
            "no such table": {"path": str(self.place / "nowhere")},
            "no such column": {"key": ["m"], "schema": "m BIGINT"},
            "a table that does not tell its changes": {"path": str(self.place / "silent")},
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
