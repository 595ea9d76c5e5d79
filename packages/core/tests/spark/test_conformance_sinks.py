"""The built-in sinks pass the standard tests."""

from __future__ import annotations

import pytest
from mainstem import DocumentError, Events, OptionError
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_testkit.conformance.sink import SinkSuite
from pyspark.sql import SparkSession


class FilesSuite(SinkSuite):
    """The sink `files`, read by Spark as its docs say."""

    use = "files"
    form, spark_format, reading = "parquet", "parquet", {}

    def options(self):
        return {"path": str(self.place / "out"), "format": self.form}

    def rows(self, schema):
        if not list(self.place.glob("out/*")):
            return []
        reader = SparkSession.active().read.format(self.spark_format).schema(schema)
        return reader.options(**self.reading).load(str(self.place / "out" / "*")).collect()


class TestParquet(FilesSuite):
    pass


class TestJsonLines(FilesSuite):
    form, spark_format = "jsonlines", "json"


class TestCsv(FilesSuite):
    form, spark_format = "csv", "csv"
    reading = {"header": True, "escape": '"', "multiLine": True, "nullValue": "\\0"}


class TestSparkFormat(SinkSuite):
    use = "spark"

    def options(self):
        return {"format": "parquet", "path": str(self.place / "out")}

    def rows(self, schema):
        if not list(self.place.glob("out/*.parquet")):
            return []
        return SparkSession.active().read.schema(schema).parquet(str(self.place / "out")).collect()


@pytest.mark.in_turn
@pytest.mark.parametrize("suite", [TestJsonLines, TestCsv, TestSparkFormat])
def test_values_of_every_type_in_each_format(tmp_path, spark, suite):
    """Pass: the standard test of types, in every run; the rest of these suites is run in turn."""
    made = suite()
    made._move(tmp_path / "place")
    made.test_values_of_every_type_come_back_as_they_were_or_are_refused(spark)


class TestConsole(SinkSuite):
    use = "console"

    def rows(self, schema):
        return None


@pytest.mark.parametrize(
    ("use", "options", "columns", "words"),
    [
        (
            "files",
            {"format": "csv"},
            "n INT, a ARRAY<INT>",
            "csv can't hold column a, of type array<int>",
        ),
        ("files", {"format": "csv"}, "key BINARY", "csv can't hold column key"),
        (
            "files",
            {"format": "jsonlines"},
            "m STRUCT<x: MAP<BINARY, INT>>",
            "JSON can't hold column m",
        ),
        (
            "files",
            {"format": "parquet", "partition_by": ["citi"]},
            "city STRING",
            "no column 'citi'",
        ),
        (
            "files",
            {"format": "parquet", "partition_by": ["a"]},
            "a MAP<INT, INT>, n INT",
            "a folder's name",
        ),
        ("spark", {"format": "csv"}, "s STRUCT<x: INT>", "csv can't hold column s"),
        ("spark", {"format": "ORC"}, "v VARIANT", "ORC can't hold column v"),
    ],
)
def test_columns_are_refused_by_their_type(use, options, columns, words):
    """Pass: an error of the option that names the column, without Spark."""
    sink = Registry().component("sink", use)
    made = sink(sink.options_model().model_validate({"path": "x", **options}))
    with pytest.raises(OptionError, match=words):
        made.check_types(read_columns(columns), Events(columns))


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_column_without_a_type_is_refused(tmp_path, spark, pipeline, form):
    """Pass: `NULL` alone has no type; the document is refused before the first batch."""
    used = {"use": "files", "from": "row", "with": {"path": "./out", "format": form}}
    select = {"use": "select", "from": "lines", "with": {"columns": {"nothing": "NULL"}}}
    pipeline.document(operators={"row": select}, sinks={"out": used})
    pipeline.feed("1.jsonl", ["a"])
    with pytest.raises(DocumentError, match="nothing, of type void"):
        pipeline.run()
    assert not (pipeline.folder / "out").exists()
