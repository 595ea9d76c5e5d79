"""The built-in sources pass the standard tests."""

from __future__ import annotations

import json
import os
import time

from mainstem_testkit.conformance.source import SourceSuite


class FilesSuite(SourceSuite):
    use = "files"
    format = "message"
    wrong_options = {"max_files": {"max_files": 0}}

    def prepare(self):
        (self.place / "in").mkdir()

    def options(self):
        return {"path": str(self.place / "in"), "format": self.format}

    def limited(self, rows):
        return {"max_files": rows}

    def line(self, number):
        return str(number)

    def put(self, numbers):
        """Move a file for each number, the older the lower."""
        for number in numbers:
            hidden = self.place / f".{number}"
            hidden.write_text(self.line(number) + "\n")
            modified = time.time_ns() + number * 1000
            os.utime(hidden, ns=(modified, modified))
            hidden.rename(self.place / "in" / f"{number:05}-{time.time_ns()}")


class TestFilesOfMessages(FilesSuite):
    pass


class TestFilesOfJSON(FilesSuite):
    format = "jsonlines"
    wrong_options = {**FilesSuite.wrong_options, "schema": {"schema": "n NOTYPE"}}

    def options(self):
        return {**super().options(), "schema": "n INT, t STRING"}

    def line(self, number):
        return json.dumps({"n": number, "t": "é\u0000"})

    def number(self, row):
        return row["n"]


class TestRate(SourceSuite):
    use = "rate"
    wrong_options = {"rows_per_second": {"rows_per_second": 0}}

    def number(self, row):
        return row["value"]


class TestSparksOwnSource(FilesSuite):
    """`spark` with a format of Spark's that is no built-in of ours."""

    use = "spark"

    def options(self):
        return {
            "format": "orc",
            "path": str(self.place / "in"),
            "schema": "n INT",
            "options": {"maxFilesPerTrigger": "100"},
        }

    def limited(self, rows):
        return {"options": {"maxFilesPerTrigger": str(rows)}}

    wrong_options = {"schema": {"schema": "n NOTYPE"}}

    def put(self, numbers):
        import pyarrow as pa
        import pyarrow.orc

        for number in numbers:
            hidden = self.place / f".{number}"
            pyarrow.orc.write_table(pa.table({"n": pa.array([number], pa.int32())}), hidden)
            modified = time.time_ns() + number * 1000
            os.utime(hidden, ns=(modified, modified))
            hidden.rename(self.place / "in" / f"{number:05}-{time.time_ns()}.orc")

    def number(self, row):
        return row["n"]
