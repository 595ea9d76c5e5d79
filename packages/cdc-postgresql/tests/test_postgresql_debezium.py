"""Beside Debezium: the same changes of the same writes."""

from __future__ import annotations

import random

import pytest
from mainstem_cdc.testing.debezium import check_beside
from postgresql_tables import Taking, drop_slot


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [1, 2])
def test_changes_are_the_same(place, tmp_path, seed):
    """Pass: each key's changes of random transactions are those that Debezium tells, in the same order."""
    slot = f"{place.name}_other"
    properties = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(place.server.port),
        "database.user": "postgres",
        "database.password": "",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        "publication.autocreate.mode": "filtered",
        "schema.include.list": place.name,
        "snapshot.mode": "no_data",
    }
    try:
        check_beside(
            tmp_path,
            properties,
            lambda tables: Taking(place.options(tables=tables, snapshot="never")),
            place.sql,
            random.Random(seed),
        )
    finally:
        drop_slot(place.server, slot)
