"""What docs/writing-a-plugin.md prints, run as it stands there: a `Reading`, a `Format`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mainstem import OptionError, registry
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.discovery import Word, installed_words
from mainstem.run.spark_source import register
from mainstem_testkit import FormatSuite
from mainstem_testkit.conformance import suite

PAGE = Path(__file__).parents[1] / "docs" / "writing-a-plugin.md"


def printed(mark):
    """Return the block of the page that has a mark in it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if mark in block)
    return found


@pytest.fixture
def _as_installed(tmp_path, monkeypatch):
    """The printed format, as if its distribution were installed."""
    (tmp_path / "printed_words.py").write_text(printed("(Format)"))
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [*installed_words(), Word("format", "words", "printed", "1.0", "printed_words")]
    monkeypatch.setattr(registry, "installed_words", lambda: words)
    suite.Suite.component_class.__func__.cache_clear()


@pytest.mark.usefixtures("_as_installed")
class TestWords(FormatSuite):
    """The printed format passes the standard tests."""

    use = "words"
    schema = "a STRING, b STRING"

    def good(self):
        return [
            (b"x|y", {"a": "x", "b": "y"}),
            (b"|", {"a": "", "b": ""}),
            ("ü|ö".encode(), {"a": "ü", "b": "ö"}),
        ]

    def bad(self):
        return [b"", b"x", b"x|y|z", b"\xff|"]


@pytest.mark.usefixtures("_as_installed")
def test_the_printed_format_is_written_too():
    """Pass: its half for `encode` has its option and refuses what is no text."""
    find = registry.Registry().component
    given = {"format": "words", "separator": ";"}
    made = Encode(Encode.options_for(given, find).model_validate(given))
    columns = (
        Decode.options_for({"format": "words"}, find)
        .model_validate({"format": "words", "schema": "a STRING, n INT"})
        .table_schema
    )
    assert made.encoder.value(columns[:1]) == "concat_ws(';', coalesce(`a`, ''))"
    with pytest.raises(OptionError, match="column n is no STRING"):
        made.encoder.check(columns)


@pytest.mark.in_turn
def test_the_reading_of_the_page_reads_what_is_added(spark, tmp_path):
    """Two runs over a file that grows between them. Pass: each line once, in batches of a thousand."""
    found = {"__name__": "printed"}  # of no module, so that it goes to Spark's processes by value
    exec(printed("(Reading)"), found)
    file = tmp_path / "lines"
    lines = [f"line {n}" for n in range(2500)]

    def run():
        batches = []
        name = register(spark, found["Lines"](file), "lines", str(file))
        query = (
            spark.readStream.name("lines").format(name).load()
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda batch, _: batches.append([row.line for row in batch.collect()]))
            .start()
        )  # fmt: skip
        assert query.awaitTermination(60)
        return batches

    file.write_text("\n".join(lines[:1200]) + "\nli")  # one more is being written
    assert run() == [lines[:1000], lines[1000:1200]]
    file.write_text("\n".join(lines) + "\n")
    assert run() == [lines[1200:2200], lines[2200:]]
    assert run() == []
