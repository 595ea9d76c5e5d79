"""The `Reading` that docs/writing-a-plugin.md prints, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mainstem.run.spark_source import register

PAGE = Path(__file__).parents[1] / "docs" / "writing-a-plugin.md"


@pytest.mark.in_turn
def test_the_reading_of_the_page_reads_what_is_added(spark, tmp_path):
    """Two runs over a file that grows between them. Pass: each line once, in batches of a thousand."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (printed,) = (block for block in blocks if "(Reading)" in block)
    found = {"__name__": "printed"}  # of no module, so that it goes to Spark's processes by value
    exec(printed, found)
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
