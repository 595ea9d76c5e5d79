"""What the sink and the source `sql` hold while a run goes on and on."""

from __future__ import annotations

import gc

import pytest
from mainstem import Reached
from mainstem_database_sql.source.source import SQLSource
from sql_writing import changes
from test_sql_source_driver import polling

DDL = "id BIGINT, name STRING"
#: How many objects of Python's may stay of each batch or question, when there were so many already.
_EACH, _BEFORE = 20, 12


def left(work, count=_BEFORE):
    """Return how many objects stay each time when work is done again and again with a number."""
    held = []
    for numbers in (range(count), range(count, 2 * count)):
        for number in numbers:
            work(number)
        gc.collect()
        held.append(len(gc.get_objects()))
    return (held[1] - held[0]) / count


@pytest.mark.in_turn
def test_batches_leave_nothing_in_memory(place_in):
    """Pass: statements that name the tables of one batch are not kept; nor is anything else."""
    place = place_in("postgres")
    sink, shape = place.sink(), changes(DDL, ["id"], None)

    def write(number):
        row = {"id": number, "name": "x"}
        place.write([row], shape, "staged", sink=sink, number=number)

    assert left(write) < _EACH


@pytest.mark.in_turn
def test_asking_for_the_lag_leaves_nothing_in_memory(place_in, tmp_path):
    """Pass: SQLAlchemy keeps things of each engine, so one and the same is asked."""
    place = place_in("postgres")
    place.write([{"id": 1, "name": "x"}], DDL)
    source = SQLSource(polling(place.url, place.name))
    assert left(lambda _number: source.lag(Reached(None, tmp_path, tmp_path))) < _EACH
