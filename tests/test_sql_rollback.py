"""A query is taken back, and what it wrote into a database comes again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from mainstem import PipelineError
from mainstem.run.rollback import refusals, take_back


def document(pipeline, deliver):
    source = {"path": "./in", "format": "jsonlines", "schema": "n BIGINT", "max_files": 1}
    sink = {"url": "sqlite:///./out.db", "table": "out"}
    return pipeline.document(
        sources={"lines": {"use": "files", "with": source}},
        sinks={"out": {"use": "sql", "from": "lines", "deliver": deliver, "with": sink}},
    )


def fed(pipeline):
    for number in range(4):
        pipeline.feed(f"{number}.jsonl", [{"n": 2 * number}, {"n": 2 * number + 1}])
        pipeline.run()


def numbers(pipeline):
    with closing(sqlite3.connect(pipeline.folder / "out.db")) as database:
        return sorted(n for (n,) in database.execute("SELECT n FROM out"))


@pytest.mark.in_turn
def test_rows_known_by_their_id_come_again_after_a_rollback_and_change_nothing(pipeline):
    """Pass: the rows of later batches, now cut otherwise, are there once."""
    document(pipeline, "idempotent")
    fed(pipeline)
    plan = pipeline.plan()
    take_back(plan, plan.queries[0], 1)
    source = pipeline.file.read_text().replace("max_files: 1", "max_files: 9")
    pipeline.file.write_text(source)
    pipeline.run()
    assert numbers(pipeline) == list(range(8))


@pytest.mark.in_turn
def test_a_ledger_of_batches_does_not_bear_a_rollback(pipeline):
    """Pass: refused in words, for batches cut otherwise would be taken for those that are in."""
    document(pipeline, "transactional")
    fed(pipeline)
    plan = pipeline.plan()
    with pytest.raises(PipelineError, match="out: sql can neither take back what it wrote"):
        take_back(plan, plan.queries[0], 1)


@pytest.mark.in_turn
def test_marking_rows_with_ids_does_not_make_a_ledger_of_batches_bear_it(pipeline):
    """Pass: refused by `transactional` also where the sink hands ids on; by `microbatch` that is enough."""
    for deliver in ("transactional", "microbatch"):
        document(pipeline, deliver)
        fed(pipeline)
        plan = pipeline.plan()
        sink = plan.nodes["out"].component
        marking = {"capabilities": replace(sink.capabilities, needs_id=True)}
        sink.__class__ = type("Marking", (type(sink),), marking)
        found = refusals(plan, plan.queries[0], 1)
        assert [why for why in found if "can neither take back" in why] == (
            found if deliver == "transactional" else []
        )
        shutil.rmtree(pipeline.folder / "checkpoints")
        shutil.rmtree(pipeline.folder / "in")
        (pipeline.folder / "in").mkdir()
