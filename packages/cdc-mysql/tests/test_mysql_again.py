"""Tables that are read again while their changes go on, by the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mainstem_cdc.testing import PATIENCE, check_read_again
from mainstem_testkit import wait_for
from mainstem_testkit.conformance._receiver import TakingProcess, stored
from mysql_tables import Taking

TABLES = {"orders": {"key": ["id"], "schema": "id BIGINT, name STRING"}}


@pytest.mark.in_turn
def test_a_table_is_read_again(place, tmp_path):
    """Pass: from a condition on, by requests that are forgotten once they are stored; wrong conditions, pauses."""
    check_read_again(lambda **given: Taking(place.options(**given)), place.sql, tmp_path)


@pytest.mark.in_turn
def test_commands_ask_a_process(mysql_place, tmp_path):
    """Pass: `cdc snapshot` lets a receiver's own process read a table again, `cdc show` tells of it, and wrong names are
    told; nothing is asked for before the receiver has begun."""
    from mainstem.commands import load

    place = mysql_place
    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(20))")
    place.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    file = tmp_path / "pipeline.yaml"
    document = {
        "pipeline": "again",
        "checkpoint": "./checkpoint",
        "sources": {"shop": {"use": "mysql", "with": place.options(tables=TABLES)}},
        "sinks": {"out": {"use": "console", "from": "shop.orders"}},
    }
    file.write_text(json.dumps(document))

    def ask(*words):
        command = [sys.executable, "-m", "mainstem", "cdc", words[0], str(file), *words[1:]]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return found.returncode, found.stdout or found.stderr

    code, told = ask("snapshot", "shop", "--table", "orders")
    assert code
    assert "has not begun" in told
    plan = load(file)
    source = plan.nodes["shop"].component
    home = Path(plan.home("shop"))
    home.mkdir(parents=True)
    (process,) = source.processes("shop", home)
    folder = source.log(home).folder

    def keys():
        return [message.extra[1]["id"] for message in stored(folder)]

    with TakingProcess(process) as running:
        running.until(lambda: keys() == [1, 2], "stored")
        for words, said in (
            (("snapshot", "shop", "--table", "nothing"), "has no table 'nothing'"),
            (("snapshot", "nobody", "--table", "orders"), "no source 'nobody'"),
            (("snapshot", "shop"), "--table"),
        ):
            code, told = ask(*words)
            assert code
            assert said in told
        assert ask("snapshot", "shop", "--table", "orders", "--where", "id = 2")[0] == 0
        running.until(lambda: keys() == [1, 2, 2], "read again")
        wait_for(
            lambda: not json.loads(ask("show", "--format", "json")[1])["sources"][0]["requests"],
            PATIENCE,
        )
        assert "orders: whole" in ask("show")[1]
        assert running.stop() == 0
