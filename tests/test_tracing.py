"""`mainstem where` on a log that is read by position, and at a sink that has a ledger."""

from __future__ import annotations

import asyncio
import json

import nats as nats_client
import pytest
from mainstem.cli.app import app
from typer.testing import CliRunner


def where(pipeline, *arguments, code=0):
    told = ["where", str(pipeline.file), "--format", "json", *arguments]
    result = CliRunner().invoke(app, told)
    assert result.exit_code == code, result.output or result.exception
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def published(server, stream, count):
    """Put messages into a stream, which is made where it is not there."""

    async def put():
        client = await nats_client.connect(server.url)
        await client.jetstream().add_stream(name=stream, subjects=[f"{stream}.>"])
        for n in range(count):
            await client.jetstream().publish(f"{stream}.a", b"%d" % n)
        await client.close()

    asyncio.run(put())


@pytest.mark.in_turn
def test_a_ledger_says_whether_a_batch_is_in(nats, pipeline):
    """A run is killed just before a commit, and just after one. Pass: the batch has begun; the ledger says
    that it is not in, and that it is.
    """
    stream = "TRACED"
    published(nats, stream, 3)
    pipeline.document(
        sources={"log": {"use": "jetstream", "with": {"servers": nats.url, "stream": stream}}},
        operators={
            "few": {"use": "select", "from": "log", "with": {"columns": {"position": "position"}}}
        },
        sinks={
            "board": {
                "use": "sql",
                "from": "few",
                "with": {"url": f"sqlite:///{pipeline.folder}/b.db", "table": "b", "create": True},
            }
        },
    )
    pipeline.run()
    published(nats, stream, 3)
    for point, told in (
        ("sql.before-commit:1:kill", "not written yet"),
        ("sql.after-commit:1:kill", "written, as its ledger says"),
    ):
        assert pipeline.command(MAINSTEM_FAILPOINT=point).returncode == -9
        (found,) = where(pipeline, "--message", f"{stream}/5")
        (query,) = found["queries"]
        assert (query["state"], query["batch"], query["sinks"]) == ("planned", 1, {"board": told})
    pipeline.run()
    (found,) = where(pipeline, "--message", f"{stream}/5")
    assert found["queries"][0]["state"] == "done"
    assert found["queries"][0]["sinks"] == {"board": "written"}
    assert where(pipeline, "--message", f"{stream}/9", code=1) == []
    published(nats, stream, 1)
    (found,) = where(pipeline, "--message", f"{stream}/7")
    assert found["queries"][0]["state"] == "waiting"
