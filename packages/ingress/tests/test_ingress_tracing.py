"""`mainstem where`: what became of messages that came through the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ingress_far import Far, messages, store_of
from mainstem.cli.app import app
from mainstem_ingress import Message
from mainstem_ingress.log import Log
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.retention import Retention
from mainstem_ingress.tracing import segment_of, traces
from typer.testing import CliRunner


def where(pipeline: Any, *arguments: str, code: int = 0) -> list[Any]:
    told = ["where", str(pipeline.file), "--format", "json", *arguments]
    result = CliRunner().invoke(app, told)
    assert result.exit_code == code, result.output or result.exception
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


@pytest.mark.usefixtures("far_plugin")
@pytest.mark.in_turn
def test_each_message_is_followed_to_its_sinks(far: Far, pipeline: Any) -> None:
    """Pass: through two queries to what was written, to a refusal with its reason, and where nothing has it yet."""
    pipeline.document(
        sources={"far": {"use": "far_queue", "with": {"port": far.port, "max_message": 20}}},
        operators={
            "order": {
                "use": "decode",
                "from": "far",
                "relay": True,
                "with": {"format": "json", "schema": "id BIGINT"},
            }
        },
        sinks={
            "raw": pipeline.sink("raw", "far"),
            "out": pipeline.sink("out", "order"),
            "bad": pipeline.sink("bad", ["order.rejected", "far.rejected"]),
        },
    )
    given = [Message(b'{"id": %d}' % n, b"k%d" % (n % 2), id=b"m%d" % n) for n in range(3)]
    far.put([*given, Message(b"no json", id=b"m3"), Message(b"large" * 9, id=b"m4")])
    pipeline.run()
    (good,) = where(pipeline, "--message", "m1")
    assert good["source"] == "far"
    assert good["refused"] is None
    assert {each["state"] for each in good["queries"]} == {"done"}
    sinks = {sink: told for each in good["queries"] for sink, told in each["sinks"].items()}
    assert sinks == dict.fromkeys(("raw", "out", "bad"), "written")
    assert good["asides"] == []
    (bad,) = where(pipeline, "--message", "m3")
    (told,) = bad["asides"]
    assert (told["sink"], told["from"]) == ("bad", "order")
    assert "JSON" in told["reason"]
    (large,) = where(pipeline, "--message", "m4")
    assert "its value has 45 bytes" in large["refused"]
    assert [found["place"]["position"] for found in where(pipeline, "--key", "k0")] == [
        "000000000000.00000000",
        "000000000000.00000002",
    ]
    place = f"{good['place']['partition']}/{good['place']['position']}"
    assert where(pipeline, "--message", place) == [good]
    assert where(pipeline, "--message", "never", code=1) == []
    store_of(_log(pipeline), 0).store([Message(b"{}", id=b"m5")])
    (waiting,) = where(pipeline, "--message", "m5")
    assert {each["state"] for each in waiting["queries"]} == {"waiting"}
    text = CliRunner().invoke(app, ["where", str(pipeline.file), "--message", "m3"]).stdout
    assert "bad has it from order: " in text
    assert "batch 0, done" in text


def _log(pipeline: Any) -> Log:
    return Log(next(pipeline.folder.glob("checkpoints/test/nodes/far")))


def test_what_was_removed_is_known_by_its_id(log: Log) -> None:
    """Pass: within the horizon, and it says so."""
    store = store_of(log, 0)
    for n in range(3):
        store.store(messages(n, ids=True))
    log.consumers.folder.mkdir()
    log.consumers.put("all", {"0": 2})
    Retention(log, store.name, IngressOptions()).tidy(store.next, store.bytes)
    assert not Path(log.receiver(0), "000000000000.segment").exists()
    (found,) = traces(log, "id-0", "")
    assert "removed" in found.found
    assert found.value is None
    assert segment_of(found) == ("0", 1)
