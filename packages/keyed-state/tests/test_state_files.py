"""The state as its files have it, beside what Spark's own reader says of it."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from mainstem import PipelineError
from mainstem.commands import load
from mainstem_keyed_state.serving import TOKEN, application, serve
from mainstem_keyed_state.state_files import GoneError, state_files

pytestmark = pytest.mark.usefixtures("plugin")


def by_spark(spark: Any, checkpoint: Path, variable: str, batch: int) -> set[tuple[Any, ...]]:
    frame = (
        spark.read.format("statestore")
        .option("stateVarName", variable)
        .option("batchId", batch)
        .load(str(checkpoint))
        .selectExpr(
            "key.bucket", "user_map_key.table", "user_map_key.page", "user_map_value.layout", "user_map_value.data"
        )
    )  # fmt: skip
    return {(*row[:4], bytes(row[4])) for row in frame.collect()}


@pytest.mark.in_turn
def test_entries_are_those_that_spark_reads(trial, spark, tmp_path) -> None:
    """Rows that come and go for fifteen batches, over restarts. Pass: after each batch that is kept the same entries, also
    of one bucket alone; snapshots and changelogs were both there."""
    from test_keyed_on_spark import REMEMBER, row

    draw = random.Random(3)
    document = {**REMEMBER, "operators": {"kept": {**REMEMBER["operators"]["kept"]}}}
    document["operators"]["kept"]["with"] = {"key": ["k"], "due": "until", "page_bytes": 2000}
    with trial(document, "kept") as tried:
        for number in range(15):
            seconds = number * 60
            tried.feed(
                "rows",
                [
                    row(draw.randrange(4000), seconds, seconds + draw.randrange(300))
                    for _ in range(400)
                ],
            )
            tried.batch()
            if number in (4, 9):
                tried.crash()
        tried.batch()
        (checkpoint,) = (each.parent for each in tmp_path.rglob("commits"))
        last = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
        kinds = {each.suffix for each in checkpoint.glob("state/0/*/*") if each.is_file()}
        assert {".zip", ".changelog"} <= kinds
        for batch in (last, last - 1, last - 3):
            found = state_files(checkpoint, "pages_kept", batch)
            entries = found.entries()
            assert {tuple(each) for each in entries} == by_spark(
                spark, checkpoint, "pages_kept", batch
            )
            assert len({each.page for each in entries}) > 5
            some = entries[0].bucket
            assert found.entries([some]) == [each for each in entries if each.bucket == some]


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    """Pass: no batch, a batch that is not kept, no such state, a snapshot that is gone."""
    with pytest.raises(PipelineError, match="no batch that was done"):
        state_files(tmp_path, "pages_x")
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "7").touch()
    with pytest.raises(PipelineError, match="no batch 3: batches 7 to 7 are kept"):
        state_files(tmp_path, "pages_x", 3)
    with pytest.raises(PipelineError, match="no state 'pages_x'"):
        state_files(tmp_path, "pages_x")


@pytest.fixture
def counted(pipeline) -> Any:
    """A plan whose node `counted` has the counts of a few keys."""
    source = {"path": "./in", "format": "jsonlines", "schema": "k INT"}
    pipeline.document(
        sources={"rows": {"use": "files", "with": source}},
        operators={"counted": {"use": "count_keys", "from": "rows"}},
        sinks={"out": pipeline.sink("out", "counted")},
    )
    pipeline.feed("0.json", [{"k": k} for k in (1, 2, 2, 3, 3, 3)])
    pipeline.run()
    return load(pipeline.file)


@pytest.mark.in_turn
def test_state_is_told_over_http(counted, pipeline) -> None:
    """Pass: nodes, rows of a key with their batch, limits; what is wrong has its status; the next batch is told as soon
    as it is done."""
    transport = httpx.ASGITransport(application(counted))

    async def ask(path: str, **headers: str) -> tuple[int, Any]:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            found = await client.get(path, headers=headers)
        return found.status_code, found.json()

    async def foreign() -> int:
        async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
            return (await client.get("/")).status_code

    def get(path: str, **headers: str) -> tuple[int, Any]:
        return asyncio.run(ask(path, **headers))

    assert get("/") == (200, {"pipeline": counted.pipeline, "nodes": ["counted"]})
    rows = [{"key": ["2"], "row": {"n": 2}}]
    told = {"node": "counted", "batch": 0, "tables": {"counts": {"rows": rows, "more": False}}}
    assert get("/counted?key=2") == (200, told)
    status, all_of_it = get("/counted?limit=2")
    assert status == 200
    assert len(all_of_it["tables"]["counts"]["rows"]) == 2
    assert all_of_it["tables"]["counts"]["more"]
    for path, status in {
        "/other": 404, "/counted?key=x": 400, "/counted?key=1&key=2": 400, "/counted?limit=-1": 400,
        "/counted?kee=1": 400, "/counted?batch=9": 404, "/counted?table=none": 404,
        f"/counted?batch={'9' * 5000}": 400,
    }.items():  # fmt: skip
        found, told = get(path)
        assert (found, list(told)) == (status, ["error"]), path
    assert len(get("/counted?limit=0")[1]["tables"]["counts"]["rows"]) == 3
    assert asyncio.run(foreign()) == 400  # by a name that somebody else gave this machine
    pipeline.feed("1.json", [{"k": 2}])
    pipeline.run()
    status, told = get("/counted?key=2")
    assert (told["batch"], told["tables"]["counts"]["rows"][0]["row"]) == (1, {"n": 3})
    assert get("/counted?key=2&batch=0")[1]["tables"]["counts"]["rows"] == rows


@pytest.mark.in_turn
def test_damaged_files_are_told(counted, pipeline) -> None:
    """Pass: each with its place, and never a part of the state as all of it."""
    (checkpoint,) = {each.parents[1] for each in pipeline.folder.rglob("commits/0")}
    files = state_files(checkpoint, "pages_counted")
    assert files.entries()
    (folder, *_), packed = sorted(files.folder.glob("[0-9]*")), "1.zip"
    whole = (folder / packed).read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"no zip"):
        (folder / packed).write_bytes(broken)
        with pytest.raises(PipelineError, match="its state can't be read"):
            files.entries()
    (folder / packed).unlink()
    with pytest.raises(GoneError, match="its state is gone"):
        files.entries()
    shutil.rmtree(folder)
    with pytest.raises(GoneError, match="its state is gone"):
        files.entries()


def test_others_must_send_a_token(counted, monkeypatch) -> None:
    """Pass: where there is one, nobody is told anything without it; without one, nobody but this machine is served."""
    transport = httpx.ASGITransport(application(counted, "s3cret"))

    async def statuses() -> list[int]:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            sent = [{}, {"authorization": "Bearer s3creT"}, {"authorization": "Bearer s3cret"}]
            return [
                (await client.get(path, headers=each)).status_code
                for each in sent
                for path in ("/", "/counted?key=2")
            ]

    assert asyncio.run(statuses()) == [401, 401, 401, 401, 200, 200]
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(PipelineError, match=TOKEN):
        serve(counted, "0.0.0.0", 0)
