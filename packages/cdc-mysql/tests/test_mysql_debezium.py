"""Beside Debezium: the same changes of the same writes."""

from __future__ import annotations

import random

import pytest
from mainstem_cdc.testing.debezium import check_beside
from mysql_tables import Taking


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [1, 2])
def test_changes_are_the_same(mysql_place, tmp_path, seed):
    """Pass: each key's changes of random transactions are those that Debezium tells, in the same order."""
    place = mysql_place
    properties = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(place.server.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": str(5000 + seed),
        "database.include.list": place.name,
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "snapshot.mode": "no_data",
    }
    check_beside(
        tmp_path,
        properties,
        lambda tables: Taking(place.options(tables=tables, snapshot="never")),
        place.sql,
        random.Random(seed),
    )
