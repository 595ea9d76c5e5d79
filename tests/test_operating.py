"""What an operator of a pipeline asks and does: lag, checkpoints, replay, preview, metrics, Python."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mainstem import DocumentError, Lag, MainstemError, PipelineError, Reached
from mainstem import Pipeline as Program
from mainstem.cli.app import app
from mainstem.history import History
from mainstem.plan.build import make_plan
from mainstem.plan.replay import replay_plan
from mainstem.run.runner import run
from mainstem_testkit import wait_for
from totals_document import BASE, changed, minute, totals, write
from typer.testing import CliRunner


def command(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output or result.exception
    return result.output


SHADOW = {
    "use": "files",
    "from": "totals",
    "query": "replay",
    "with": {"path": "./again", "format": "jsonlines"},
}


@pytest.mark.in_turn
def test_lag_is_the_rows_and_the_age_of_what_is_not_read(pipeline):
    """Pass: all of it before the first run, nothing after, and what came since."""
    write(pipeline, BASE)
    pipeline.feed("1.jsonl", minute(1, 2) + minute(2, 3))
    (found,) = json.loads(command("lag", pipeline.file, "--format", "json"))
    assert (found["query"], found["source"], found["rows"]) == ("totals", "lines", 5)
    pipeline.run()
    assert "totals" in command("lag", pipeline.file)
    (found,) = json.loads(command("lag", pipeline.file, "--format", "json"))
    assert (found["rows"], found["seconds"]) == (0, 0.0)
    pipeline.feed("2.jsonl", minute(3, 4))
    (found,) = json.loads(command("lag", pipeline.file, "--format", "json"))
    assert found["rows"] == 4
    assert 0 <= found["seconds"] < 60


def test_the_lag_of_files_follows_sparks_own_log(tmp_path):
    """Pass: entries up to the offset are read, also from a compacted log; hidden files are none."""
    folder, log = tmp_path / "in", tmp_path / "log"
    (folder / "day=1").mkdir(parents=True)
    log.mkdir()
    for name in ("a", "b", "day=1/c d", "e"):
        (folder / name).write_text("x\ny\n")
    (folder / "_hidden").write_text("x\n")
    entries = [
        json.dumps({"path": f"file://{folder}/{name}", "timestamp": 1, "batchId": number})
        for number, name in enumerate(("a", "b", "day=1/c%20d"))
    ]
    (log / "1.compact").write_text("\n".join(["v1", *entries[:2]]))
    (log / "2").write_text("v1\n" + entries[2])
    source = (
        make_plan(
            {
                "pipeline": "p",
                "sources": {
                    "lines": {"use": "files", "with": {"path": str(folder), "format": "text"}}
                },
                "sinks": {"out": {"use": "console", "from": "lines"}},
            }
        )
        .nodes["lines"]
        .source
    )
    assert [lag.rows for lag in source.lag(Reached(None, tmp_path / "none", tmp_path))] == [8]
    assert [lag.rows for lag in source.lag(Reached({"logOffset": 1}, log, tmp_path))] == [4]
    assert [lag.rows for lag in source.lag(Reached({"logOffset": 2}, log, tmp_path))] == [2]
    (folder / "e").unlink()
    assert source.lag(Reached({"logOffset": 2}, log, tmp_path)) == [Lag("0", 0, 0.0)]
    assert source.gone(Reached({"logOffset": 0}, log, tmp_path)) == ""
    (folder / "b").unlink()
    assert source.gone(Reached({"logOffset": 0}, log, tmp_path)) == "1 files, such as b"
    assert source.gone(Reached({"logOffset": 1}, log, tmp_path)) == ""


@pytest.mark.in_turn
def test_a_checkpoint_is_shown_verified_and_copied(pipeline):
    """Pass: the copy goes on by itself and leaves the original alone; damage is named."""
    write(pipeline, BASE)
    assert "a run begins one" in command("checkpoint", "verify", pipeline.file)
    pipeline.feed("1.jsonl", minute(1, 2))
    pipeline.run()
    shown = json.loads(command("checkpoint", "show", pipeline.file, "--format", "json"))
    query = shown["queries"]["totals"]
    assert query["offsets"]["lines"] == {"logOffset": 0}
    assert query["next"] is None
    assert query["state_bytes"] > 0
    assert query["unread"] == {"lines": {"rows": 0, "seconds": 0.0}}
    assert "unread      lines 0 / 0 s" in command("checkpoint", "show", pipeline.file)
    assert "whole" in command("checkpoint", "verify", pipeline.file)
    command("checkpoint", "copy", pipeline.file, pipeline.folder / "fork")

    pipeline.feed("2.jsonl", minute(1, 3) + minute(9, 1))
    fork = {"path": "./fork_out", "format": "jsonlines"}
    write(pipeline, changed(checkpoint="./fork", sinks__out__with=fork))
    pipeline.run()
    write(pipeline, BASE)
    pipeline.run()
    assert totals(pipeline, "fork_out") == totals(pipeline)
    assert [n for *_, n in totals(pipeline)] == [5]
    ids = [
        json.loads((pipeline.folder / at / "test/queries/totals/metadata").read_text())["id"]
        for at in ("checkpoints", "fork")
    ]
    assert ids[0] != ids[1]
    rollback = [
        "checkpoint",
        "rollback",
        str(pipeline.file),
        "--query",
        "totals",
        "--batch",
        "0",
        "--yes",
    ]
    result = CliRunner().invoke(app, [*rollback, "--set", "checkpoint=./fork"])
    assert "the checkpoint is a copy made after batch" in str(result.exception)
    for into in ("fork", "checkpoints/test/inside"):
        arguments = ["checkpoint", "copy", str(pipeline.file), str(pipeline.folder / into)]
        assert isinstance(CliRunner().invoke(app, arguments).exception, PipelineError)

    folder = pipeline.folder / "checkpoints/test/queries/totals"
    last = max(int(file.name) for file in (folder / "offsets").glob("[0-9]*"))
    (folder / "state/0/0/SSTs").mkdir()
    (folder / "state/0/0/SSTs/000008-4c2c8d0e.sst").touch()  # as RocksDB's snapshots have
    assert "whole" in command("checkpoint", "verify", pipeline.file)
    for file in (folder / "state").rglob(f"{last + 1}.*"):
        file.unlink()
    shown = command("checkpoint", "verify", pipeline.file, code=1)
    assert f"state 0/0 of batch {last} is incomplete" in shown
    (folder / "state").rename(folder / "gone")
    assert "the state is gone" in command("checkpoint", "verify", pipeline.file, code=1)
    (folder / "offsets" / str(last)).write_text("v9\n{}\n")
    shown = command("checkpoint", "verify", pipeline.file, code=1)
    assert f"offsets/{last} can't be read" in shown
    for arguments in (["checkpoint", "show"], ["lag"]):
        result = CliRunner().invoke(app, [*arguments, str(pipeline.file)])
        assert isinstance(result.exception, MainstemError)
        assert "unknown version 'v9'" in str(result.exception)
    (pipeline.folder / "checkpoints/test/pipeline.json").write_text("{")
    shown = command("checkpoint", "verify", pipeline.file, code=1)
    assert "pipeline.json can't be read" in shown
    with pytest.raises(PipelineError, match=r"pipeline\.json can't be read"):
        pipeline.run()


@pytest.mark.in_turn
def test_a_rollback_that_a_sink_cannot_bear_is_refused(pipeline):
    """Pass: the reason names the sink; so does one for a batch that is not on record."""
    write(pipeline, changed(sinks__more={"use": "console", "from": "totals"}))
    for number in (1, 3):
        pipeline.feed(f"{number}.jsonl", minute(number, 1))
        pipeline.run()
    arguments = ["checkpoint", "rollback", str(pipeline.file), "--query", "totals", "--batch"]
    result = CliRunner().invoke(app, [*arguments, "0"])
    assert isinstance(result.exception, PipelineError)
    assert "more: console can neither take back what it wrote" in str(result.exception)
    result = CliRunner().invoke(app, [*arguments, "99"])
    assert "batch 99 is not among those on record" in str(result.exception)
    last = History(pipeline.plan().query_folder("totals")).last()
    result = CliRunner().invoke(app, [*arguments, str(last)])
    assert f"batch {last} is the last one" in result.output
    assert result.exit_code == 0


@pytest.mark.in_turn
def test_a_replay_fills_a_shadow_sink_beside_the_running_job(pipeline):
    """Pass: the shadow has what a run from scratch gives; the job and its offsets go on untouched, and what
    would disturb it is refused.
    """
    write(pipeline, changed(sinks__again=SHADOW))
    document = pipeline.file.read_text()
    for number in (1, 2, 3):
        pipeline.feed(f"{number}.jsonl", minute(number * 2, number))
    live = make_plan(pipeline.file, changes=["trigger={every: 200 ms}"])
    assert [query.name for query in live.queries] == ["totals"]
    stop = threading.Event()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(run(live, stop=stop)))
    thread.start()
    wait_for(lambda: len(totals(pipeline)) == 2, 180)
    assert not (pipeline.folder / "again").exists()
    offsets = pipeline.folder / "checkpoints/test/queries/totals/offsets"
    before = sorted(file.name for file in offsets.glob("*"))
    run(replay_plan(make_plan(pipeline.file), "totals", "earliest", {"out": "again"}))
    assert sorted(file.name for file in offsets.glob("*")) == before
    assert thread.is_alive()
    held = ["checkpoint", "rollback", pipeline.file, "--query", "totals", "--batch", "0", "--yes"]
    for arguments in (held, ["checkpoint", "copy", pipeline.file, pipeline.folder / "fork"]):
        refused = CliRunner().invoke(app, list(map(str, arguments)))
        assert "the pipeline is already running" in str(refused.exception)
    assert not (pipeline.folder / "fork").exists()
    stop.set()
    thread.join(60)
    assert totals(pipeline, "again") == totals(pipeline)
    assert [n for *_, n in totals(pipeline)] == [1, 2]
    assert pipeline.file.read_text() == document


@pytest.mark.in_turn
def test_a_replay_from_a_time_reads_the_files_changed_since(pipeline):
    """Pass: only the rows of the newer file; an interrupted or repeated replay goes on."""
    import os

    write(pipeline, changed(sinks__again=SHADOW), flush=True)
    pipeline.feed("1.jsonl", minute(1, 1))
    pipeline.feed("2.jsonl", minute(2, 2))
    os.utime(pipeline.folder / "in/1.jsonl", (1_000_000_000, 1_000_000_000))
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    arguments = ["replay", pipeline.file, "--query", "totals", "--into", "out=again"]
    command(*arguments, "--from", since)
    command(*arguments, "--from", since)
    assert [n for *_, n in totals(pipeline, "again")] == [2]
    result = CliRunner().invoke(app, [*map(str, arguments), "--from", "earliest"])
    assert result.exit_code == 1
    assert "start over with `--fresh`" in result.output
    command(*arguments, "--fresh")
    assert sorted(n for *_, n in totals(pipeline, "again")) == [1, 2, 2]


def test_a_replay_that_does_not_fit_is_refused_in_words(pipeline):
    """Pass: names come with the nearest right one; a source that can't start elsewhere is named."""
    write(pipeline, changed(sinks__again=SHADOW))
    plan = make_plan(pipeline.file)
    for query, point, into, words in (
        ("total", "earliest", {"out": "again"}, "no query 'total'"),
        ("totals", "earliest", {"ou": "again"}, "has no sink 'ou'"),
        ("totals", "earliest", {"out": "out"}, "no sink 'out' with `query: replay`"),
        (
            "totals",
            "soon",
            {"out": "again"},
            "expected `earliest`, an ISO 8601 time, or JSON of offsets",
        ),
    ):
        with pytest.raises(PipelineError, match=words):
            replay_plan(plan, query, point, into)
    rate = {
        "pipeline": "p",
        "sources": {"ticks": {"use": "rate"}},
        "sinks": {
            "out": {"use": "console", "from": "ticks"},
            "again": {"use": "console", "from": "ticks", "query": "replay"},
        },
    }
    with pytest.raises(PipelineError, match="'rate' can't start elsewhere"):
        replay_plan(make_plan(rate), "ticks", "earliest", {"out": "again"})


@pytest.mark.in_turn
def test_a_preview_writes_no_checkpoint_and_moves_no_offsets(pipeline):
    """Pass: rows of a step, of an output and of a window; the run after it reads everything."""
    write(pipeline, BASE)
    pipeline.feed("1.jsonl", [*map(json.dumps, minute(1, 3)), "nonsense"])
    program = Program(pipeline.file)
    assert [row["k"] for row in program.preview("row", 2)] == ["a", "a"]
    (bad,) = program.preview("row.rejected")
    assert (bad["reason"], bad["payload"]) == ("not JSON", "nonsense")
    assert [row["n"] for row in program.preview("totals")] == [3]
    assert len(command("preview", pipeline.file, "lines", "--format", "json").splitlines()) == 4
    assert not (pipeline.folder / "checkpoints").exists()
    with pytest.raises(PipelineError, match="there is no 'totls'.*totals"):
        program.preview("totls")
    write(pipeline, BASE, flush=True)
    pipeline.run()
    assert [n for *_, n in totals(pipeline)] == [3]


@pytest.mark.in_turn
def test_a_program_has_the_power_of_the_command_line(pipeline):
    """Pass: path, text and values; runs in the foreground and in the background; shown in a notebook."""
    write(pipeline, BASE, flush=True)
    pipeline.feed("1.jsonl", minute(1, 3))
    text = pipeline.file.read_text().replace("./", f"{pipeline.folder}/")
    program = Program(text)
    shown = program._repr_mimebundle_()
    assert "<svg" in shown["text/html"]
    assert "exactly-once" in shown["text/html"]
    assert "query totals" in str(program)
    assert [each.lag.rows for each in program.lag()] == [3]
    summary = program.run()
    assert summary["queries"]["totals"]["nodes"]["out"] == {"rows": 1}
    endless = Program(text, ["trigger={every: 100 ms}"]).start()
    pipeline.feed("2.jsonl", minute(7, 1))
    wait_for(lambda: any(facts["rows_in"] for facts in endless.progress))
    assert endless.active
    assert endless.stop()["queries"]["totals"]["rows_in"] == 1
    with pytest.raises(DocumentError, match="--set sinks.out.with.format"):
        Program(text, ["sinks.out.with.format=zip"])
    broken = Program(text, ["operators.row.on_rejected=fail"])
    pipeline.feed("3.jsonl", ["nonsense"])
    with pytest.raises(PipelineError, match="row"):
        broken.start().wait(60)


@pytest.mark.in_turn
def test_metrics_are_served_while_it_runs_and_healthz_tells_when_it_does_not(pipeline):
    """Pass: the facts of finished batches under the names of the docs; 503 before, no port after."""
    from mainstem.observation.metrics import Metrics

    write(pipeline, BASE)
    pipeline.feed("1.jsonl", [*map(json.dumps, minute(1, 2)), "nonsense"])
    reporter = Metrics(0)
    url = f"http://127.0.0.1:{reporter.port}"

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert get("/healthz")[0] == 503
    stop = threading.Event()
    live = make_plan(pipeline.file, changes=["trigger={every: 200 ms}"])
    thread = threading.Thread(target=lambda: run(live, stop=stop, reporter=reporter))
    thread.start()
    row = 'mainstem_rows_total{node="row",output="%s",pipeline="test",query="totals"} %s'
    wait_for(lambda: row % ("", "2.0") in get("/metrics")[1])
    text = get("/metrics")[1]
    assert row % ("rejected", "1.0") in text
    assert 'mainstem_lag_rows{pipeline="test",query="totals",source="lines"} 0.0' in text
    assert get("/healthz") == (200, "running\n")
    stop.set()
    thread.join(60)
    with pytest.raises(urllib.error.URLError):
        get("/healthz")


def test_the_document_is_changed_from_outside(pipeline, monkeypatch):
    """Pass: --set wins over the environment, that over the file; what is wrong is named by origin."""
    write(pipeline, BASE)
    monkeypatch.setenv("MAINSTEM_SINKS__OUT__WITH__FILES_PER_BATCH", "2")
    monkeypatch.setenv("MAINSTEM_TRIGGER", "{every: 3 seconds}")
    monkeypatch.setenv("MAINSTEM_FAILPOINT_OR_SO", "none of a document's keys")
    plan = make_plan(pipeline.file, changes=['spark.conf."spark.ui.port"=4050'])
    assert plan.nodes["out"].component.options.files_per_batch == 2
    assert plan.document.trigger.every == timedelta(seconds=3)
    assert plan.document.spark.conf["spark.ui.port"] == 4050
    plan = make_plan(pipeline.file, changes=["sinks.out.with.files_per_batch=3"])
    assert plan.nodes["out"].component.options.files_per_batch == 3
    with pytest.raises(DocumentError) as caught:
        make_plan(
            pipeline.file,
            changes=[
                "sinks.out.with.path=[1",
                "sink.out=1",
                "pipeline",
                "pipeline.x=1",
                "require=x\ntrigger: 1",
                "spark.conf={a: 1, a: 2}",
            ],
        )
    for words in (
        "--set sinks.out.with.path: the value is not YAML",
        "--set sink.out: a document has no key 'sink'",
        "expected --set KEY.PATH=VALUE, found 'pipeline'",
        "--set pipeline.x: pipeline holds no keys",
        "--set require: more than one value",
        "--set spark.conf: key 'a' stands twice",
    ):
        assert words in str(caught.value)


def test_a_value_from_outside_can_be_a_secret_and_is_not_shown(pipeline, monkeypatch):
    """Pass: a reference set from outside is resolved late, like one in the file."""
    write(pipeline, BASE)
    monkeypatch.setenv("PLACE", f"{pipeline.folder}/hidden-place")
    changes = ["sinks.out.with.path=${env:PLACE}", "spark.master=spark://host:7077"]
    shown = command("plan", pipeline.file, *(part for each in changes for part in ("--set", each)))
    assert "out.path: ${env:PLACE}" in shown
    assert "hidden-place" not in shown
    assert str(make_plan(pipeline.file, changes=changes).shared()["out.path"]).endswith(
        "hidden-place"
    )


def test_a_cluster_is_told_what_must_be_shared(pipeline):
    """Pass: the plan lists checkpoint and paths for a cluster, and nothing for a local master."""
    write(pipeline, BASE)
    assert "must lie where" not in command("plan", pipeline.file)
    shown = command("plan", pipeline.file, "--set", "spark.master=spark://host:7077")
    for name in ("checkpoint", "lines.path", "out.path"):
        assert f"  {name}: {pipeline.folder}" in shown
