"""`table_table_join` killed with kill -9 wherever its run passes, and run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mainstem_testkit import PipelineFolder, crash_at_every_point
from table_table_world import Reader, compare_and_set
from test_table_table_runs import JOINS, SOURCES, TAKE, changes, document, drawn, oracle, same

#: As they are named in the oracle.
JOIN = {"all_orders": JOINS["all_orders"]}


def prepared(pipeline: PipelineFolder, batches: list[Any]) -> PipelineFolder:
    """Write the document, and each batch as one file of each source."""
    made = document(JOIN)
    for name in SOURCES:
        folder = pipeline.folder / name
        folder.mkdir()
        for number, batch in enumerate(batches):
            lines = "".join(json.dumps(row) + "\n" for row in batch[name])
            Path(folder, f"{number}.jsonl").write_text(lines)
        made["sources"][name]["with"] |= {"path": f"./{name}", "max_files": 1}
    made["sinks"] = {f"{name}_out": pipeline.sink(f"{name}_out", name) for name in JOIN}
    made.pop("pipeline")
    return pipeline.document(**made)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_killed_anywhere_the_run_after_it_leaves_the_table_that_pandas_makes(pipeline):
    """Pass: after a kill at each point and a second run, each change is there once and all images fit."""
    batches = drawn(3)[:2]
    prepared(pipeline, batches)

    def check(folder: PipelineFolder) -> None:
        for name in JOIN:
            told = changes([_whole(row) for row in folder.rows(f"{name}_out")])
            reader = Reader("id")
            reader.follow(told)
            same(reader.table.values(), oracle(batches, name))
            same(compare_and_set(told, reader).values(), oracle(batches, name))

    crash_at_every_point(pipeline, check, passes=(1, 2))


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the columns that JSON lines leave out when they are null."""
    names = ("id", "ref", "v", "n", "gone", *TAKE)
    return {**dict.fromkeys(names), **row}
