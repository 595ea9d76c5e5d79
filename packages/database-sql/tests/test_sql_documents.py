"""Documents with the sink `sql`: what the plan promises, and what is there after kills."""

from __future__ import annotations

import pytest
from mainstem import DocumentError, PipelineError, crashpoints
from mainstem.contracts.guarantee import Level
from mainstem.plan.rendering import as_text
from sql_writing import slow

FILES, EACH = 4, 50
SOURCE = {
    "use": "files",
    "with": {
        "path": "./in",
        "format": "jsonlines",
        "schema": "id BIGINT, name STRING",
        "max_files": 1,
    },
}


def document(pipeline, place, *, feed=True, deliver=None, **parts):
    """Write a document from files, one a batch, into the place's table; give it files."""
    given = {
        "url": place.url,
        "table": place.name,
        "ledger": place.ledger,
        "give_up": "20 seconds",
    }
    sink = {"use": "sql", "from": "lines", "with": given} | (
        {"deliver": deliver} if deliver else {}
    )
    sinks = {"out": sink, **parts.pop("sinks", {})}
    pipeline.document(sources={"lines": SOURCE}, sinks=sinks, **parts)
    for number in range(FILES if feed else 0):
        rows = [{"id": number * EACH + n, "name": f"{n}"} for n in range(EACH)]
        pipeline.feed(f"{number}.jsonl", rows)


def killed(pipeline, where):
    """Run a document in a process that is killed at a crash point."""
    trace = pipeline.folder / "trace"
    ended = pipeline.command(MAINSTEM_FAILPOINT=where, MAINSTEM_FAILPOINT_TRACE=str(trace))
    assert ended.returncode == -9, ended.stderr
    assert f"{where}" in trace.read_text().split()
    trace.unlink()


@pytest.mark.parametrize("product", ["postgres", slow("mariadb"), slow("sqlite")])
@pytest.mark.in_turn
def test_exactly_once_over_two_kills(product, place_in, pipeline):
    """Pass: `require: exactly-once` is met by `transactional`, which nobody asked for by name; killed
    before one commit and after another, and started again, the table has each row once."""
    place = place_in(product)
    document(pipeline, place, require="exactly-once")
    killed(pipeline, "sql.before-commit:2:kill")
    assert len(place.ids()) == EACH
    killed(pipeline, "sql.after-commit:2:kill")
    assert len(place.ids()) == 3 * EACH
    pipeline.run()
    assert place.ids() == list(range(FILES * EACH))


def test_the_plan_says_what_is_promised_and_why(place, pipeline):
    """Pass: exactly once by `transactional`, with its grounds, and without assumptions of the sink."""
    document(pipeline, place, feed=False, require="exactly-once")
    plan = pipeline.plan()
    node = plan.nodes["out"]
    assert (node.delivery_word, node.promise.level) == ("transactional", Level.EXACTLY_ONCE)
    text = as_text(plan)
    assert "out: exactly-once (deliver: transactional)" in text
    assert "since out: rows and the batch's ledger entry are committed together" in text
    assert place.name not in place.tables()  # planning reaches for nothing


@pytest.mark.parametrize("deliver", ["staged", "idempotent"])
def test_the_other_strategies_promise_it_too(place, pipeline, deliver):
    """Pass: by their own grounds, as long as what they assume."""
    document(pipeline, place, feed=False, deliver=deliver, require="exactly-once")
    plan = pipeline.plan()
    assert plan.nodes["out"].promise.level is Level.EXACTLY_ONCE
    assert f"out: exactly-once (deliver: {deliver})" in as_text(plan)
    assert "as long as out: " in as_text(plan)


@pytest.mark.parametrize("deliver", ["transactional", "idempotent", "staged", "microbatch"])
@pytest.mark.in_turn
def test_a_failure_after_the_commit_doubles_only_what_says_so(place_in, pipeline, deliver):
    """Pass: with `microbatch` the plan says at least once and why, refuses a document that requires more,
    and the rows of the batch are there twice; with the others once."""
    place = place_in("sqlite")
    exact = deliver != "microbatch"
    document(pipeline, place, feed=False, deliver=deliver)
    pipeline.feed("1.jsonl", [{"id": 1}, {"id": 2}])
    plan = pipeline.plan()
    assert plan.nodes["out"].promise.level is (Level.EXACTLY_ONCE if exact else Level.AT_LEAST_ONCE)
    assert ("a batch that is retried after a failure is written again" in as_text(plan)) != exact
    armed = crashpoints.armed("sql.after-commit:1:raise")
    with armed, pytest.raises(PipelineError, match=r"sql\.after-commit"):
        pipeline.run()
    assert place.ids() == [1, 2]
    pipeline.run()
    assert place.ids() == ([1, 2] if exact else [1, 1, 2, 2])
    if not exact:
        document(pipeline, place, feed=False, deliver=deliver, require="exactly-once")
        with pytest.raises(DocumentError, match="exactly-once"):
            pipeline.plan()


@pytest.mark.in_turn
def test_refused_rows_go_where_the_document_says(place_in, pipeline):
    """Pass: with the reason and the row as JSON, the others in the table; when nobody reads them the run
    fails, and the rows that are good stay once when it is started again."""
    place = place_in("sqlite")
    place.ask("CREATE TABLE {t} (id BIGINT, name TEXT CHECK (name <> 'bad'))")
    document(pipeline, place, feed=False)
    pipeline.feed("1.jsonl", [{"id": 1, "name": "a"}, {"id": 2, "name": "bad"}])
    with pytest.raises(PipelineError, match=r"out: 1 rows were refused for good.*out\.rejected"):
        pipeline.run()
    refused = pipeline.sink("refused", "out.rejected")
    document(pipeline, place, feed=False, sinks={"refused": refused})
    pipeline.run()
    (row,) = pipeline.rows("refused")
    assert "CHECK constraint failed" in row["reason"]
    assert place.rows() == [(1, "a")]


@pytest.mark.in_turn
def test_fresh_begins_a_checkpoint_that_the_ledger_does_not_know(place_in, pipeline):
    """Pass: batch 0 of a new checkpoint is not taken for the old one's: its rows are written."""
    place = place_in("sqlite")
    document(pipeline, place, feed=False)
    pipeline.feed("1.jsonl", [{"id": 1}])
    pipeline.run()
    pipeline.run()
    assert place.ids() == [1]
    pipeline.run(fresh=[query.name for query in pipeline.plan().queries])
    assert place.ids() == [1, 1]
