"""What the sink `sql` holds while a run goes on and on."""

from __future__ import annotations

import gc

from sql_writing import changes

DDL = "id BIGINT, name STRING"
#: How many objects of Python's a batch may leave behind, when so many have been written already.
_A_BATCH, _BEFORE = 20, 12


def test_batches_leave_nothing_in_memory(place_in):
    """Pass: statements that name the tables of one batch are not kept; nor is anything else."""
    place = place_in("postgres")
    sink, shape = place.sink(), changes(DDL, ["id"], None)

    def held(batches):
        for number in batches:
            place.write([{"id": number, "name": "x"}], shape, "staged", sink=sink, number=number)
        gc.collect()
        return len(gc.get_objects())

    before, more = held(range(_BEFORE)), range(_BEFORE, 2 * _BEFORE)
    assert (held(more) - before) / len(more) < _A_BATCH
