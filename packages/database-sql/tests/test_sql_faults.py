"""The sink `sql` against lost answers, cut connections and servers that are killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from mainstem import Events, PipelineError
from mainstem_database_sql.sink import publishing
from sql_writing import EXACT, SERVERS, changes, strategies

DDL = "id BIGINT, name STRING"
MANY = [{"id": n, "name": f"{n} " + "x" * 200} for n in range(3_000)]


def through(place, proxy, **options):
    """Return a sink that reaches the place's server by a proxy."""
    url = place.url.replace(f":{place.server.port}/", f":{proxy.port}/")
    assert url != place.url
    return place.sink(url=url, **options)


def restart(place):
    place.server.kill()
    place.server.start()


@strategies(*EXACT, products=SERVERS, quick=[("postgres", "idempotent"), ("mariadb", "staged")])
@pytest.mark.in_turn
def test_a_lost_answer_to_any_commit_loses_and_doubles_nothing(place, how, tripwire):
    """Pass: whichever commit of a write it is, those of the executors too, the write ends well, each
    row is there once, the refused one comes back once, and nothing is left of the staging."""
    proxy = tripwire(place.server.port)
    ids = ", _id BYTEA UNIQUE" if place.product == "postgres" else ", _id VARBINARY(255) UNIQUE"
    place.ask(
        f"CREATE TABLE {{t}} (id BIGINT NOT NULL, name TEXT{ids if how == 'idempotent' else ''})"
    )
    rows = [*({"id": n, "name": "x"} for n in range(20)), {"id": None, "name": "bad"}]
    dropped = 0
    while True:
        sink = through(place, proxy)
        proxy.arm(number=dropped + 1)
        refused = place.write(rows, DDL, how, sink=sink, number=dropped, retried=False)
        assert [row["payload"].count(b"bad") for row in refused.collect()] == [1]
        if not proxy.tripped:
            break
        dropped += 1
        times = dropped if how != "idempotent" else 1  # the same rows again are nothing new
        assert Counter(place.ids()) == Counter(dict.fromkeys(range(20), times))
        assert place.staging() == []
        proxy.heal()
    assert dropped >= {"transactional": 2, "idempotent": 2, "staged": 5}[how]


@strategies(*EXACT, products=SERVERS)
@pytest.mark.in_turn
def test_a_connection_that_is_cut_among_the_rows_is_made_again(place, how, tripwire):
    """Pass: the write ends well, and each row is there once."""
    proxy = tripwire(place.server.port)
    sink = through(place, proxy)
    proxy.arm(after=200_000, then=proxy.cut)
    assert place.write(MANY, DDL, how, sink=sink) is None
    assert proxy.tripped
    assert place.ids() == list(range(3_000))


@strategies(*EXACT, products=SERVERS)
@pytest.mark.in_turn
def test_a_server_that_is_killed_among_the_rows_is_waited_for(place, how, tripwire):
    """Pass: killed and started again while rows are on their way, the write ends well, each row once."""
    proxy = tripwire(place.server.port)
    sink = through(place, proxy, give_up="60 seconds")
    place.write([], DDL, how, sink=sink)
    proxy.arm(after=200_000, then=lambda: restart(place))
    assert place.write(MANY, DDL, how, sink=sink, number=1) is None
    assert proxy.tripped
    assert place.ids() == list(range(3_000))
    assert place.staging() == []


@pytest.mark.parametrize("keyed", [False, True], ids=["events", "changes"])
@pytest.mark.parametrize("product", SERVERS)
@pytest.mark.in_turn
def test_a_server_that_is_killed_before_publishing_loses_no_staged_row(product, keyed, place_in):
    """Pass: PostgreSQL empties its unlogged tables when it starts after that; the rows are staged
    again, and each is there once."""
    place = place_in(product)
    sink, shape = place.sink(give_up="60 seconds"), Events(DDL)
    if keyed:
        shape = changes("id BIGINT, name STRING, v BIGINT", ["id"])
    rows = [{"id": n, "name": "x", "v": n} for n in range(50)]
    batch = place.batch(shape)
    staged = sink.stage(place.frame(rows, shape, parts=2), batch)
    restart(place)
    assert sink.publish(staged, batch) is None
    assert place.ids() == list(range(50))
    assert place.staging() == []


def test_staged_rows_that_vanish_again_and_again_fail_the_batch(place):
    """Pass: an error that counts them, from the sink's node; nothing is written, the ledger knows
    nothing of the batch."""
    sink, shape = place.sink(), Events(DDL)
    batch = place.batch(shape)
    staged = sink.stage(place.frame([{"id": 1}, {"id": 2}], shape), batch)
    place.ask(f"DELETE FROM {place.mark(staged.staging.put)} WHERE id = 1")
    staged = replace(staged, again=lambda: staged)
    with pytest.raises(
        publishing.Vanished, match="out: of 2 rows that were staged, 1 are left"
    ) as error:
        sink.publish(staged, batch)
    assert isinstance(error.value, PipelineError)
    assert error.value.node == "out"
    assert place.ids() == []
    assert not sink.committed(batch)


def test_what_sqlite_has_committed_is_on_disk(place_in):
    """Pass: connections sync at each commit: a power failure takes back none that the checkpoint has."""
    place = place_in("sqlite")
    sink = place.sink()
    place.write([], DDL, sink=sink)
    with sink._writer.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_lost_connection_says_why_it_was_lost(place_in, tripwire):
    """Pass: what the client said first, not that it could not undo what it had begun."""
    place = place_in("mariadb")
    proxy = tripwire(place.server.port)
    sink = through(place, proxy, give_up="1 ms")
    place.write([], DDL, sink=sink)
    proxy.arm(text=b"INSERT INTO `rows", then=proxy.cut)
    with pytest.raises(PipelineError, match=r"mysql 127\.0\.0\.1:\d+/test: .*[Ll]ost connection"):
        place.write(MANY[:10], DDL, sink=sink, number=1)
