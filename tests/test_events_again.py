"""Events that have changed their form, and state that is made anew of all of them: docs/event-sourcing.md."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from ruamel.yaml import YAML

pytestmark = pytest.mark.in_turn

CODE = """
class Upcasts:
    steps = {("deposit", 1): lambda said: {"cents": round(said["amount"] * 100)}}


class Account:
    @staticmethod
    def evolve(state, event):
        return {"cents": (state["cents"] if state else 0) + event["cents"]}
"""


def document(pipeline):
    (pipeline.folder / "accounts.py").write_text(CODE)
    schema = "account STRING, type STRING, form BIGINT, payload STRING, number BIGINT"
    return pipeline.document(
        operators={
            "stored": {"use": "decode", "from": "lines", "with": {"format": "json", "schema": schema}},
            "newest": {"use": "upcast", "from": "stored", "with": {"call": "accounts:Upcasts", "version": "form"}},
            "event": {"use": "select", "from": "newest", "with": {"columns": {
                "account": "account", "number": "number",
                "cents": "CAST(get_json_object(payload, '$.cents') AS BIGINT)"}}},
            "sums": {"use": "evolve", "from": "event", "with": {
                "call": "accounts:Account", "by": ["account"], "state": "cents BIGINT", "version": "number"}},
        },
        sinks={
            "board": {"use": "sql", "from": "sums", "deliver": "idempotent",
                      "with": {"url": "sqlite:///./board.db", "table": "board"}},
            "bad": pipeline.sink("bad", "newest.rejected"),
        },
    )  # fmt: skip


def stored(number, form, **payload):
    told = {"account": "a", "type": "deposit", "form": form, "payload": json.dumps(payload)}
    return {**told, "number": number}


def board(pipeline):
    with closing(sqlite3.connect(pipeline.folder / "board.db")) as database:
        return dict(database.execute("SELECT account, cents FROM board"))


def test_an_event_of_each_old_form_is_tested_by_its_newest(pipeline):
    """Pass: by `mainstem test`, which tells where the steps give something else."""
    document(pipeline)
    for cents, code in ((150, 0), (151, 1)):
        test = {
            "steps": [{"rows": {"lines": [stored(1, 1, amount=1.5), stored(2, 2, cents=50)]}}],
            "expect": {"newest": [{"form": 2, "payload": f'{{"cents": {cents}}}'}, {"form": 2, "number": 2}]},
        }  # fmt: skip
        with (pipeline.folder / "pipeline.test.yaml").open("w") as text:
            YAML(typ="safe", pure=True).dump({"tests": {"old forms": test}}, text)
        argv = [sys.executable, "-m", "mainstem", "test", str(pipeline.file)]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=150)
        assert ended.returncode == code, ended.stdout + ended.stderr


def test_states_are_made_anew_by_another_sum_and_put_in_place(pipeline):
    """Pass: of all events, old forms too, by `replay --rebuild`; the table has the old states until then."""
    document(pipeline)
    pipeline.feed("1.jsonl", [stored(1, 1, amount=1.5), stored(2, 2, cents=50)])
    pipeline.run()
    assert board(pipeline) == {"a": 200}
    file = pipeline.folder / "accounts.py"
    file.write_text(CODE.replace('+ event["cents"]', '+ 10 * event["cents"]'))
    argv = [sys.executable, "-m", "mainstem", "replay", str(pipeline.file), "--query", "sums"]
    ended = subprocess.run(
        [*argv, "--rebuild", "board", "--yes"], capture_output=True, text=True, timeout=150
    )
    assert ended.returncode == 0, ended.stderr
    assert board(pipeline) == {"a": 2000}
