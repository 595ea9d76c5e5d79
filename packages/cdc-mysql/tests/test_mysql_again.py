"""Tables that are read again while their changes go on, by the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mainstem_cdc.testing import PATIENCE, changes
from mainstem_ingress.log import Log
from mainstem_testkit import wait_for
from mainstem_testkit.conformance._receiver import TakingProcess, stored
from mysql_tables import Taking

TABLES = {"orders": {"key": ["id"], "schema": "id BIGINT, name STRING"}}


def test_a_table_is_read_again(place, tmp_path):
    """Pass: asked for, a table comes again from a condition on, with sequences above those before; a request is forgotten
    once it is stored, and not before; a condition that the server does not understand is told, and all else goes on."""
    from mainstem_cdc.requests import Requests

    place.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(20))")
    place.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    log = Log(tmp_path)
    folder = log.receiver(0)
    folder.mkdir(parents=True)
    requests = Requests(folder)
    with Taking(place.options(tables=TABLES, chunk_rows=1)) as taking:
        taking.receiver.log = log
        taking.receiver.stored_cursors = lambda: {} if taking.cursor is None else {0: taking.cursor}
        taking.load()
        before = taking.some(3)
        place.sql("UPDATE orders SET name = 'x' WHERE id = 3")
        (change,) = taking.some(1)
        requests.put("snapshot", ["orders"], "id >= 2 -- of late", 0)
        again = taking.some(2)
        assert changes(again) == [("insert", 2, "b"), ("insert", 3, "x")]
        told = [
            next(r for r in m.extra[1:] if r)["_commit_version"] for m in [*before, change, *again]
        ]
        assert told == sorted(told)
        taking.until(lambda: not requests.waiting())
        requests.put("snapshot", ["orders"], "nonsense = 1", 0)
        taking.until(lambda: "failed" in taking.receiver.facts())
        assert "nonsense" in taking.receiver.facts()["failed"]
        place.sql("INSERT INTO orders VALUES (4, 'd')")
        assert changes(taking.some(1)) == [("insert", 4, "d")]
        requests.put("pause", [], None, 0)
        requests.put("snapshot", ["orders"], None, 0)
        taking.until(lambda: taking.receiver.facts().get("snapshot", {}).get("paused"))
        assert not taking.stored
        assert taking.receiver.caught_up()
        requests.put("resume", [], None, 0)
        assert [c[1] for c in changes(taking.some(4))] == [1, 2, 3, 4]


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
