"""The sink `sql` with more than one runner: other checkpoints, and runs that have been replaced."""

from __future__ import annotations

import shutil
import threading

import pytest
import sqlalchemy as sa
from mainstem import Events, FencedError
from mainstem_database_sql.sink.ledger import unpacked
from mainstem_testkit.pipelines import wait_for
from sql_writing import CHECKPOINT, EXACT, OTHER, SERVERS, changes, strategies
from test_sql_locks import waiting

DDL = "id BIGINT, name STRING"


def numbers(*ids):
    return [{"id": n, "name": "x"} for n in ids]


@strategies("transactional", "staged")
@pytest.mark.in_turn
def test_two_checkpoints_write_their_own_rows(place, how):
    """Pass: batch 0 and 1 of two checkpoints are in, each once, though both are written twice; the
    ledger has an entry for each checkpoint."""
    for number in range(2):
        for _ in range(2):
            for query_id, first in ((CHECKPOINT, 0), (OTHER, 10)):
                rows = numbers(first + number)
                place.write(rows, DDL, how, number=number, query_id=query_id)
    assert place.ids() == [0, 1, 10, 11]
    ledger = place.ask(f"SELECT query_id, batch FROM {place.mark(place.ledger)} ORDER BY 1")
    assert list(ledger) == [(CHECKPOINT, 1), (OTHER, 1)]


def test_pipelines_and_sinks_have_entries_of_their_own(place):
    """Pass: the same checkpoint id in another pipeline, or at another sink, is another one."""
    for number, batch in enumerate(({}, {"pipeline": "other"}, {"node": "other"})):
        assert place.write(numbers(number), DDL, **batch) is None
    assert place.ids() == [0, 1, 2]


def test_the_ledger_says_which_batches_are_in(place):
    """Pass: before the table is there nothing is; then the batch and those before it, of its own
    checkpoint alone."""
    shape = Events(DDL)
    assert not place.sink().committed(place.batch(shape, 0))
    place.write(numbers(1), DDL, number=4)
    found = [place.sink().committed(place.batch(shape, number)) for number in (3, 4, 5)]
    assert found == [True, True, False]
    assert not place.sink().committed(place.batch(shape, 4, OTHER))


@strategies("transactional", "staged")
def test_an_old_copy_of_a_checkpoint_is_refused(place, how):
    """Pass: a run goes on from a copy made after batch 0, with batches cut otherwise: it does not take
    them for those that are in, nor writes them."""
    for number in range(3):
        place.write(numbers(number), DDL, how, number=number)
    with pytest.raises(
        FencedError, match="has batch 2 .* this is batch 1: the checkpoint is an old copy"
    ):
        place.write(numbers(1, 2, 3), DDL, how, number=1, epoch=2)
    assert place.ids() == [0, 1, 2]


@strategies("transactional", "staged")
@pytest.mark.in_turn
def test_a_batch_that_an_old_copy_has_planned_anew_is_refused(place, how):
    """Pass: a run goes on from a copy made one batch before, and cuts the batch otherwise: neither it
    nor the run after it, to which the batch looks begun, takes it for the one that is in; what that
    refused stays in the ledger, and the newest copy goes on."""
    place.ask("CREATE TABLE {t} (id BIGINT NOT NULL, name VARCHAR(100))")
    place.write(numbers(0), DDL, how, number=0, retried=False)
    place.write(numbers(1, None), DDL, how, number=1, epoch=2, retried=False)
    for epoch, retried in ((2, False), (3, True), (4, True)):
        with pytest.raises(
            FencedError, match="has batch 1 .* planned anew since: the checkpoint is an old copy"
        ):
            place.write(numbers(1, 2, 3), DDL, how, number=1, epoch=epoch, retried=retried)
    assert place.ids() == [0, 1]
    assert place.staging() == []
    ((kept,),) = place.ask(f"SELECT refused FROM {place.mark(place.ledger)}")
    assert unpacked(kept).num_rows == 1
    place.write(numbers(2), DDL, how, number=2, epoch=2, retried=False)
    with pytest.raises(FencedError, match="has batch 2 .* this is batch 1"):
        place.write(numbers(1, 2, 3), DDL, how, number=1, epoch=5)
    assert place.ids() == [0, 1, 2]


@pytest.mark.parametrize("product", SERVERS)
def test_a_try_that_failed_takes_no_other_copys_batch_for_its_own(product, place_in, monkeypatch):
    """Pass: a write whose first try never came to its COMMIT finds the batch in, by another copy of the
    checkpoint: refused, as the first try would have been."""
    place = place_in(product)
    sink, tries = place.sink(), []
    place.write(numbers(0), DDL, sink=sink, number=0, retried=False)
    ledger = sink._writer.ledger
    enter = ledger.enter

    def failing(*given, **named):
        tries.append(1)
        if len(tries) == 1:
            enter(*given, **named)
            raise ConnectionError("cut")
        place.write(numbers(1), DDL, number=1, retried=False)
        return enter(*given, **named)

    monkeypatch.setattr(ledger, "enter", failing)
    with pytest.raises(FencedError, match="planned anew"):
        place.write(numbers(1, 2), DDL, sink=sink, number=1, retried=False)
    assert place.ids() == [0, 1]


@pytest.mark.parametrize("how", ["transactional", "staged"])
@pytest.mark.in_turn
def test_a_checkpoint_that_was_restored_from_a_backup_loses_nothing_in_silence(
    how, place_in, pipeline
):
    """Pass: of a backup that is one batch behind every run ends with the error; nothing is written."""
    place = place_in("sqlite")
    source = {
        "use": "files",
        "with": {"path": "./in", "format": "jsonlines", "schema": "id BIGINT"},
    }
    given = {"url": place.url, "table": place.name, "ledger": place.ledger}
    sink = {"use": "sql", "from": "lines", "deliver": how, "with": given}
    pipeline.document(sources={"lines": source}, sinks={"out": sink})
    checkpoint, backup = pipeline.plan().checkpoint, pipeline.folder / "backup"
    pipeline.feed("0.jsonl", [{"id": 1}])
    pipeline.run()
    shutil.copytree(checkpoint, backup)
    pipeline.feed("1.jsonl", [{"id": 2}])
    pipeline.run()
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    pipeline.feed("2.jsonl", [{"id": 3}, {"id": 4}])
    for _ in range(3):
        with pytest.raises(FencedError, match="old copy"):
            pipeline.run()
        assert place.ids() == [1, 2]


@strategies("transactional", "staged")
def test_a_run_that_skips_a_batch_fences_off_the_one_it_replaced(place, how):
    """Pass: the later run finds the earlier one's batch in; the earlier one can't write the next."""
    place.write(numbers(1), DDL, how, number=0, epoch=1, retried=False)
    assert place.write(numbers(1), DDL, how, number=0, epoch=2) is None
    with pytest.raises(FencedError, match="has seen run 2 .* this is run 1"):
        place.write(numbers(2), DDL, how, number=1, epoch=1, retried=False)
    place.write(numbers(3), DDL, how, number=1, epoch=2, retried=False)
    assert place.ids() == [1, 3]


@strategies(*EXACT)
@pytest.mark.in_turn
def test_a_run_that_was_replaced_is_fenced_off(place, how):
    """Pass: once a later run has written, the earlier one gets an error that says so, and writes
    nothing; the later one goes on."""
    place.write(numbers(1), DDL, how, number=0, epoch=2)
    with pytest.raises(FencedError, match="out: the ledger has seen run 2 .* this is run 1"):
        place.write(numbers(2), DDL, how, number=1, epoch=1)
    place.write(numbers(3), DDL, how, number=1, epoch=2)
    assert place.ids() == [1, 3]


@strategies(*EXACT)
@pytest.mark.in_turn
def test_a_run_that_waits_for_the_ledger_when_it_is_replaced_is_fenced_off(place, how):
    """Pass: the earlier run's batch waits for the later one's commit, and then gets the error; only the
    later one's rows are there."""
    shape = changes("id BIGINT, name STRING, v BIGINT", ["id"]) if how == "idempotent" else DDL
    rows = [{"id": 1, "name": "new", "v": 2}]
    old, new = place.sink(), place.sink()
    place.write([], shape, how, sink=old, number=0, epoch=1)
    place.write([], shape, how, sink=new, number=0, epoch=1)
    ended = []

    def replaced():
        try:
            late = [{"id": 2, "name": "old", "v": 3}]
            ended.append(place.write(late, shape, how, sink=old, number=1, epoch=1))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=replaced)

    def before_commit(connection):
        if entered(place, connection) and not thread.ident:
            thread.start()
            if place.server:
                wait_for(lambda: ended or waiting(place))
            else:
                thread.join(1)  # nobody tells who waits for a file
            assert not ended

    sa.event.listen(new._writer.engine, "commit", before_commit)
    assert place.write(rows, shape, how, sink=new, number=1, epoch=2) is None
    thread.join(60)
    (error,) = ended
    assert isinstance(error, FencedError)
    assert place.rows() == [(1, "new")]


def entered(place, connection):
    """Whether a transaction has set the ledger for run 2."""
    found = connection.execute(sa.text(f"SELECT epoch FROM {place.mark(place.ledger)}"))
    return found.scalar() == 2


def test_what_a_replaced_run_has_staged_never_gets_in(place):
    """Pass: its rows, staged before the later run came, are gone with their tables; it is fenced off
    when it publishes, and its clearing up leaves the later run's tables alone."""
    shape = Events(DDL)
    old, new = place.sink(), place.sink()
    first, second = place.batch(shape, 0, epoch=1), place.batch(shape, 0, epoch=2)
    before = old.stage(place.frame(numbers(1), shape), first)
    new.discard(second)
    assert place.staging() == []
    after = new.stage(place.frame(numbers(2), shape), second)
    there = place.staging()
    old.discard(first)
    assert place.staging() == there != []
    assert new.publish(after, second) is None
    with pytest.raises(FencedError):
        old.publish(before, first)
    assert place.ids() == [2]
    assert place.staging() == []


def test_staging_of_others_is_left_alone(place):
    """Pass: discarding removes neither the tables of another checkpoint nor of another sink."""
    shape = Events(DDL)
    mine, others = (
        place.batch(shape),
        [place.batch(shape, query_id=OTHER), place.batch(shape, node="b")],
    )
    sink = place.sink()
    for batch in (mine, *others):
        sink.stage(place.frame(numbers(1), shape), batch)
    assert len(place.staging()) == 3
    sink.discard(mine)
    assert len(place.staging()) == 2


@strategies("transactional", "staged")
def test_what_a_batch_refused_is_told_again_when_the_batch_comes_again(place, how):
    """Pass: to a new run, and to the same one; a later batch is told nothing of it."""
    place.ask("CREATE TABLE {t} (id BIGINT NOT NULL, name VARCHAR(100))")
    rows = [*numbers(1), {"id": None, "name": "bad"}]
    sink = place.sink()
    for given in (sink, sink, place.sink()):
        (row,) = place.write(rows, DDL, how, sink=given).collect()
        assert b'"name": "bad"' in row["payload"]
        assert "null" in row["reason"].lower()
    assert place.write(numbers(2), DDL, how, number=1) is None
    assert place.ids() == [1, 2]
