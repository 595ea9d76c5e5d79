"""A table that was built beside is put in place: what depends on the old one, and who may not."""

from __future__ import annotations

import pytest
from mainstem import PipelineError

DDL = "id BIGINT, name STRING"


def filled(place):
    """Write into the table and, beside it, into the one that is to take its place."""
    sink = place.sink()
    place.write([{"id": 1}], DDL, sink=sink)
    built = sink.beside("__rebuilt")
    place.write([{"id": 2}], DDL, sink=built, node="out__rebuilt")
    return sink, built


@pytest.mark.parametrize("product", ["mariadb", "sqlite"])
@pytest.mark.in_turn
def test_a_view_shows_the_new_table(place_in, product):
    """Pass: views of MySQL and SQLite go by the name."""
    place = place_in(product)
    sink, built = filled(place)
    view = place.mark(f"seen {place.name}")
    place.ask(f"CREATE VIEW {view} AS SELECT id FROM {{t}}")
    sink.swap(built)
    assert place.ask(f"SELECT id FROM {view}") == [(2,)]


def test_a_view_keeps_postgresql_from_dropping_the_old_table(place_in):
    """Pass: nothing is swapped, and the error says why."""
    place = place_in("postgres")
    sink, built = filled(place)
    view = place.mark(f"seen {place.name}")
    place.ask(f"CREATE VIEW {view} AS SELECT id FROM {{t}}")
    with pytest.raises(PipelineError, match="other objects depend on it"):
        sink.swap(built)
    assert place.ids() == [1]


def test_a_foreign_key_keeps_its_table_from_being_swapped(place):
    """Pass: nothing is swapped, and no row of the other table goes."""
    place.ask("CREATE TABLE {t} (id BIGINT PRIMARY KEY, name TEXT)")
    sink, built = filled(place)
    child = place.mark(f"child {place.name}")
    refers = "FOREIGN KEY (r) REFERENCES {t} (id) ON DELETE CASCADE"
    place.ask(f"CREATE TABLE {child} (r BIGINT, {refers})")
    place.ask(f"INSERT INTO {child} VALUES (1)")
    with pytest.raises(PipelineError, match="a foreign key of 'child .*' refers to it"):
        sink.swap(built)
    assert place.ids() == [1]
    assert place.ask(f"SELECT r FROM {child}") == [(1,)]


def test_a_table_that_may_not_be_made_can_be_rebuilt(place):
    """Pass: `create: false` is about the table that is there."""
    place.ask("CREATE TABLE {t} (id BIGINT, name TEXT)")
    sink = place.sink(create=False)
    built = sink.beside("__rebuilt")
    place.write([{"id": 2}], DDL, sink=built, node="out__rebuilt")
    sink.swap(built)
    assert place.ids() == [2]
