"""What is known of a run: kept, shown, served on a socket of the checkpoint and as a page."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection
from importlib.metadata import version
from io import StringIO
from typing import Any

import pytest
from mainstem.cli.app import app
from mainstem.errors import MachineError, PipelineError
from mainstem.observation.http import LocalServer
from mainstem.observation.meeting import NotRunningError, last, look, observed
from mainstem.observation.page.serving import TOKEN, Page
from mainstem.observation.picture import BUCKET, BUCKETS, History, Picture
from mainstem.observation.reporter import JSONLines, Several, Silent
from mainstem.observation.samples import Samples
from mainstem.observation.table import table_of
from mainstem.paths import made_user_folder
from mainstem.plan.build import make_plan
from mainstem_testkit.pipelines import wait_for
from rich.console import Console
from typer.testing import CliRunner, Result

DOCUMENT = """
pipeline: shop
checkpoint: {folder}/checkpoints
sources:
  lines: {{use: files, with: {{path: {folder}/in, format: message}}}}
operators:
  order: {{use: decode, from: lines, with: {{format: json, schema: "id BIGINT"}}}}
  known: {{use: select, from: order, with: {{where: "id <> ${{env:SHOP_SECRET}}"}}}}
sinks:
  out: {{use: files, from: known, with: {{path: {folder}/out, format: jsonlines}}}}
  bad: {{use: files, from: order.rejected, with: {{path: {folder}/bad, format: jsonlines}}}}
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_SECRET", "81818181")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "in").mkdir()
    return make_plan(DOCUMENT.format(folder=tmp_path))


def batch(plan, number=0, rows=5, rejected=2, seconds=0.5, **more: Any) -> dict[str, Any]:
    query = plan.queries[0].name
    good = rows - rejected
    return {
        "event": "batch",
        "pipeline": "shop",
        "query": query,
        "batch": number,
        "at": f"2026-11-29T12:00:{number:02}.000Z",
        "seconds": seconds,
        "rows_in": rows,
        "rows_per_second": rows / seconds,
        "watermark": None,
        "state_rows": 0,
        "late_rows": 0,
        "nodes": {
            "lines": {"rows": rows},
            "order": {"rows": good, "rejected": rejected},
            "known": {"rows": good},
            "out": {"rows": good},
            "bad": {"rows": rejected},
        },
        "idle": [],
        "lag": {"lines": {"rows": 3, "seconds": 1.5}},
        **more,
    }


def doing(plan, number, seconds, node="out"):
    query = plan.queries[0].name
    facts = {"query": query, "what": "writes", "batch": number, "node": node, "seconds": seconds}
    return {"event": "doing", "pipeline": "shop", **facts}


class Clock:
    """Seconds since 1970 that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def node(facts, name):
    return next(each for each in facts["nodes"] if each["name"] == name)


def edge(facts, below):
    return next(each for each in facts["edges"] if each["to"] == below)


def test_the_picture_sums_up_what_it_is_told(plan):
    """Pass: totals over batches, rates of the newest, for nodes and edges; named outputs by their own counts."""
    picture = Picture(plan, Clock())
    assert picture.facts()["state"] == "starting"
    picture.started(plan)
    picture.batch(batch(plan, 0))
    picture.batch(batch(plan, 1, rows=20, rejected=0))
    facts = picture.facts()
    assert facts["state"] == "running"
    assert node(facts, "order")["totals"] == {"rows": 23, "rejected": 2}
    assert node(facts, "lines")["lag"] == {"rows": 3, "seconds": 1.5}
    assert node(facts, "out")["guarantee"]["level"] == "exactly-once"
    assert node(facts, "out")["guarantee"]["assumptions"]
    told = edge(facts, "known")
    assert (told["from"], told["output"], told["rows"], told["rows_per_second"]) == (
        "order", "", 23, 40.0,
    )  # fmt: skip
    told = edge(facts, "bad")
    assert (told["output"], told["rows"], told["rows_per_second"]) == ("rejected", 2, 0)
    [query] = facts["queries"]
    assert (query["batches"], query["rows_in"], query["last"]["batch"]) == (2, 25, 1)
    assert [each["rows_in"] for each in query["newest"]] == [5, 20]
    assert json.loads(json.dumps(facts)) == facts


def test_the_picture_tells_no_secret(plan):
    """Pass: neither in options nor in errors."""
    picture = Picture(plan)
    picture.failed(PipelineError("known: id <> 81818181 fails", node="known"))
    text = json.dumps(picture.facts())
    assert "81818181" not in text
    assert "${env:SHOP_SECRET}" in text
    assert picture.facts()["error"]["node"] == "known"
    assert node(picture.facts(), "order")["options"]["schema"]


def test_a_batch_in_hand_is_shown_until_it_is_told(plan):
    """Pass: for as long as it takes; news of it that come after its end change nothing."""
    clock = Clock()
    picture = Picture(plan, clock)
    picture.started(plan)
    picture.doing(doing(plan, 0, 2.0))
    clock.now += 3
    [query] = picture.facts()["queries"]
    assert query["in_hand"] == {"batch": 0, "seconds": 5.0, "node": "out"}
    picture.batch(batch(plan, 0))
    picture.doing(doing(plan, 0, 2.5))
    [query] = picture.facts()["queries"]
    assert query["in_hand"] is None


def test_what_happened_is_kept(plan):
    """Pass: restarts, loading, helpers that wait and queries that do not stop, each with why."""
    picture = Picture(plan)
    picture.started(plan)
    about = {"pipeline": "shop", "query": plan.queries[0].name}
    picture.loading({**about, "event": "loading", "reads": ["lines"]})
    assert picture.facts()["queries"][0]["doing"] == "loads lines"
    picture.restarted({**about, "event": "restarted", "why": "a worker was lost"})
    picture.unstopped({**about, "event": "unstopped", "why": "timeout"})
    for state in ("running", "waiting", "waiting"):
        facts = {"node": "lines", "helper": "lines-0", "state": state, "why": "refused", "rows": 7}
        picture.helper({"pipeline": "shop", **facts})
    picture.ended({})
    facts = picture.facts()
    assert [each["event"] for each in facts["events"]] == [
        "started", "loading", "restarted", "unstopped", "helper", "ended",
    ]  # fmt: skip
    assert facts["events"][4]["text"] == "lines-0 waiting: refused"
    assert facts["helpers"][0]["facts"]["rows"] == 7
    assert (facts["state"], facts["queries"][0]["restarts"]) == ("ended", 1)


@pytest.mark.parametrize(
    "odd",
    [{"rows": None}, {"rows": "many"}, {"why": {"a": 1}}, {"state": 7}, {"gauges": math.nan}, {"x": b"?"}],
)  # fmt: skip
def test_whatever_a_helper_tells_ends_no_run(plan, odd):
    """Pass: it is kept as JSON has it, and the table shows what it can."""
    picture = Picture(plan)
    picture.started(plan)
    about = {"node": "lines", "helper": "lines-0", "state": "running", "rows": 4}
    picture.helper(about)
    picture.helper({**about, **odd})
    facts = json.loads(json.dumps(picture.facts(), allow_nan=False))
    assert facts["helpers"][0]["shown"]["rows"] == "4"
    table_of(facts)
    picture.batch({"query": "none"})  # nor whatever else is told
    assert picture.facts()["state"] == "running"


def test_what_a_query_does_stays_until_that_has_ended(plan):
    """Pass: batches while it loads, and while it does not stop, change neither."""
    picture = Picture(plan)
    picture.started(plan)
    about = {"pipeline": "shop", "query": plan.queries[0].name}
    for event, then in (("loading", "loads lines"), ("loaded", "runs")):
        picture.loading({**about, "event": event, "reads": ["lines"]})
        picture.batch(batch(plan))
        assert picture.facts()["queries"][0]["doing"] == then
    picture.unstopped({**about, "why": "timeout"})
    picture.batch(batch(plan))
    assert picture.facts()["queries"][0]["doing"] == "does not stop"


def test_edges_stand_still_once_no_batch_comes(plan):
    """Pass: a minute after the newest batch nothing flows."""
    clock = Clock()
    picture = Picture(plan, clock)
    picture.started(plan)
    picture.batch(batch(plan))
    assert edge(picture.facts(), "order")["rows_per_second"] == 10
    clock.now += 61
    assert edge(picture.facts(), "order")["rows_per_second"] == 0


def test_the_last_hour_by_half_minutes():
    """Pass: what came in one half minute is one amount, gaps are 0, what is older than an hour is gone."""
    history = History()
    assert history.shown(0) == [0]
    for at, amount in ((5, 1), (29, 2), (95, 4)):
        history.add(amount, at)
    assert history.shown(130) == [3, 0, 0, 4, 0]
    assert history.shown(5 + BUCKET * BUCKETS) == [0, 0, 4, *[0] * (BUCKETS - 3)]
    assert sum(history.shown(2 * BUCKET * BUCKETS)) == 0
    history.add(8, 94)  # a clock that was set back
    assert history.shown(130) == [3, 0, 0, 12, 0]


def test_it_is_the_same_in_a_table(plan):
    """Pass: queries with their nodes, rows, rates, lag with a legend, and a batch that takes long."""
    picture = Picture(plan)
    picture.started(plan)
    picture.batch(batch(plan, 0))
    picture.doing(doing(plan, 1, 7.0))
    facts = {"node": "lines", "helper": "lines-0", "state": "waiting", "why": "[odd]", "rows": 7}
    picture.helper({"pipeline": "shop", **facts})
    out = StringIO()
    Console(file=out, width=120).print(table_of(picture.facts()))
    lines = [[cell.strip() for cell in line.split("│")] for line in out.getvalue().splitlines()]
    rows = {line[1]: line[2:] for line in lines if len(line) > 3}
    assert "lag, rows" in out.getvalue()
    assert rows["lines-0 waiting: [odd]"][0] == "7"
    assert rows["order"][:3] == ["3", "6", "2"]
    assert rows["lines"][-3:-1] == ["3", "2"]
    assert any("batch 1 for 7 s" in name for name in rows)


def test_long_batches_are_told_as_json_lines(plan, capsys):
    """Pass: each stage once; a batch once it has taken 5 seconds, and each time that has doubled."""
    lines = JSONLines()
    for seconds in (0.0, 0.2, 30.0):
        facts = {"event": "doing", "pipeline": "shop", "what": "Spark starts"}
        lines.doing({**facts, "seconds": seconds})
    for number, seconds in ((0, 1.0), (0, 4.9), (0, 5.2), (0, 9.0), (0, 10.5), (1, 0.1), (1, 6.0)):
        lines.doing(doing(plan, number, seconds))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each.get("batch"), each["seconds"]) for each in told] == [
        (None, 0.0), (0, 5.2), (0, 10.5), (1, 6.0),
    ]  # fmt: skip


def test_several_reporters_are_all_told():
    """Pass: everything that a reporter can be told."""
    told: list[str] = []
    names = [name for name in vars(Silent) if not name.startswith("_")]
    one = type("One", (), {n: (lambda *_, n=n: told.append(n)) for n in names})()
    both: Any = Several(one, one)
    for name in names:
        getattr(both, name)(*([] if name == "tick" else [{}]))
    assert told == [name for name in names for _ in range(2)]
    assert len(names) > 8


# -- where a run is found


def test_a_run_is_found_by_its_checkpoint(plan):
    """Pass: while it lasts; after it, what it knew at its end is there, and nobody answers."""
    plan.checkpoint.mkdir(parents=True)
    with pytest.raises(NotRunningError, match="nothing runs"):
        look(plan.checkpoint)
    assert last(plan.checkpoint) is None
    with observed(plan, Silent()) as reporter:
        reporter.started(plan)
        reporter.batch(batch(plan, 3))
        assert look(plan.checkpoint)["queries"][0]["last"]["batch"] == 3
        path = (plan.checkpoint / "socket").read_text()
        assert os.stat(os.path.dirname(path)).st_mode & 0o077 == 0  # noqa: PTH116, PTH120
    with pytest.raises(NotRunningError):
        look(plan.checkpoint)
    assert last(plan.checkpoint)["queries"][0]["last"]["batch"] == 3


def test_how_a_run_failed_is_kept(plan):
    """Pass: the error and its node; the next run takes the place of one that was killed."""
    plan.checkpoint.mkdir(parents=True)
    with pytest.raises(PipelineError), observed(plan, Silent()):
        raise PipelineError("out: the disk is full", node="out")
    assert last(plan.checkpoint)["error"] == {"node": "out", "text": "out: the disk is full"}
    # A socket that a killed process left.
    left = socket.socket(socket.AF_UNIX)
    left.bind((plan.checkpoint / "socket").read_text())
    left.close()
    with pytest.raises(NotRunningError):
        look(plan.checkpoint)
    with observed(plan, Silent()):
        assert look(plan.checkpoint)["error"] is None


def test_a_run_that_was_killed_is_told_as_that(plan):
    """Pass: what its start left says that it ended without a word."""
    plan.checkpoint.mkdir(parents=True)
    with observed(plan, Silent()):
        left = (plan.checkpoint / "last_run.json").read_text()
    (plan.checkpoint / "last_run.json").write_text(left)
    found = last(plan.checkpoint)
    assert found["state"] == "failed"
    assert "killed" in found["error"]["text"]


def test_a_run_that_is_left_early_has_ended(plan):
    """Pass: one that is interrupted before its queries start was not killed."""
    plan.checkpoint.mkdir(parents=True)
    with observed(plan, Silent()):
        pass
    assert (last(plan.checkpoint)["state"], last(plan.checkpoint)["error"]) == ("ended", None)


def test_nothing_hides_what_a_run_failed_by(plan):
    """Pass: the error is the run's own, though what is known can't be written; the socket is closed."""
    plan.checkpoint.mkdir(parents=True)

    def failing() -> None:
        with observed(plan, Silent()):
            (plan.checkpoint / "last_run.json").unlink()
            (plan.checkpoint / "last_run.json").mkdir()
            raise PipelineError("the real cause")

    with pytest.raises(PipelineError, match="real"):
        failing()
    with pytest.raises(NotRunningError):
        look(plan.checkpoint)


def test_a_run_goes_on_where_it_can_not_be_looked_at(plan, monkeypatch, tmp_path, caplog):
    """Pass: others may write to the folder, or its path is too long for a socket; it is said, and nothing served."""
    plan.checkpoint.mkdir(parents=True)
    made_user_folder().chmod(0o777)
    with observed(plan, Silent()), pytest.raises(NotRunningError):
        look(plan.checkpoint)
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with observed(plan, Silent()), pytest.raises(NotRunningError):
        look(plan.checkpoint)
    assert last(plan.checkpoint)["pipeline"] == "shop"
    assert len([each for each in caplog.messages if "has no socket" in each]) == 2


def test_who_answers_nonsense_is_no_run(plan, tmp_path):
    """Pass: as if nobody answered."""
    plan.checkpoint.mkdir(parents=True)
    path = made_user_folder() / "x.socket"

    def app(environ, respond):
        respond("200 OK", [])
        return [b"<html>"]

    server = LocalServer(app, path)
    (plan.checkpoint / "socket").write_text(str(path))
    with pytest.raises(NotRunningError):
        look(plan.checkpoint)
    server.close()
    assert not path.exists()


# -- the page


def ask(page, path="/", method="GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture
def page(plan, monkeypatch):
    monkeypatch.setattr("mainstem.observation.page.serving._PATIENCE", 0.0)
    plan.checkpoint.mkdir(parents=True)
    page = Page(plan.checkpoint, "127.0.0.1", 0)
    yield page
    page.close()


def test_the_page_needs_nothing_from_elsewhere(page):
    """Pass: what it names is served here, and a browser is told to ask nobody else."""
    status, headers, html = ask(page)
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert "http" not in html.replace("http-equiv", "")
    for path in ("/page.css", "/page.js", "/icon.svg"):
        assert path in html or path == "/icon.svg"
        status, headers, content = ask(page, path)
        assert (status, bool(content)) == (200, True)
        assert "https://" not in content
    assert ask(page, "/../serving.py")[0] == 404
    assert ask(page, "/page.py")[0] == 404


def test_the_page_shows_and_changes_nothing(page, plan):
    """Pass: reading alone; of the run that goes on, or of the one that ended."""
    for method in ("POST", "PUT", "DELETE"):
        assert ask(page, "/run", method)[0] == 405
    assert json.loads(ask(page, "/run")[2]) == {"running": False, "run": None}
    with observed(plan, Silent()) as reporter:
        reporter.started(plan)
        told = json.loads(ask(page, "/run")[2])
        assert (told["running"], told["run"]["state"]) == (True, "running")
        reporter.ended({})
    told = json.loads(ask(page, "/run")[2])
    assert (told["running"], told["run"]["state"]) == (False, "ended")


def test_a_name_of_somebody_elses_is_refused(page):
    """Pass: a page elsewhere that gives its own name this machine's address reads nothing."""
    assert ask(page, "/run", Host="evil.example:8787")[0] == 403
    for host in ("localhost", "127.0.0.1:1", "[::1]:8787"):
        assert ask(page, "/run", Host=host)[0] == 200


def test_other_machines_need_the_token(page, plan, monkeypatch):
    """Pass: neither without nor with another; once shown, a cookie is enough; it is made where none is set."""
    made = Page(plan.checkpoint, "0.0.0.0", 0)
    token = made.url.partition("?token=")[2]
    assert "0.0.0.0" not in made.url
    assert len(token) > 30
    made.close()
    monkeypatch.setenv(TOKEN, "open sesame")
    page = Page(plan.checkpoint, "0.0.0.0", 0)
    try:
        for path in ("/", "/run", "/page.js"):
            assert ask(page, path)[0] == 403
            assert ask(page, f"{path}?token=wrong")[0] == 403
            assert ask(page, path, Cookie=f"mainstem-page-{page.port}=wrong")[0] == 403
        status, headers, _ = ask(page, "/?token=open%20sesame", Host="elsewhere.example")
        assert status == 200
        cookie = headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
        assert ask(page, "/run", Cookie=cookie.split(";")[0])[0] == 200
        assert str(page.port) in cookie.split("=")[0], "cookies are for a host, whatever the port"
    finally:
        page.close()


def test_a_token_that_is_set_is_asked_for_everywhere(page, plan, monkeypatch):
    """Pass: on this machine alone too, where a proxy may stand before the page."""
    assert ask(page, "/run")[0] == 200
    monkeypatch.setenv(TOKEN, "sesame")
    local = Page(plan.checkpoint, "127.0.0.1", 0)
    try:
        assert ask(local, "/run")[0] == 403
        assert ask(local, "/run?token=sesame")[0] == 200
    finally:
        local.close()


def test_a_page_that_somebody_looks_at_is_closed_once_they_know(page, monkeypatch):
    """Pass: closing waits for the next question, so that a browser sees how a run ended."""
    monkeypatch.setattr("mainstem.observation.page.serving._PATIENCE", 60.0)
    assert ask(page, "/run")[0] == 200
    closing = threading.Thread(target=page.close)
    closing.start()
    closing.join(0.5)
    assert closing.is_alive(), "it waits"
    assert ask(page, "/run")[0] == 200
    closing.join(10)
    monkeypatch.setattr("mainstem.observation.page.serving._PATIENCE", 0.0)
    assert not closing.is_alive()
    with pytest.raises(OSError):  # noqa: PT011
        ask(page, "/run")


def test_an_address_that_can_not_be_had(plan, page):
    """Pass: told as what the machine lacks."""
    with pytest.raises(MachineError, match=f"page on 127.0.0.1:{page.port}"):
        Page(plan.checkpoint, "127.0.0.1", page.port)


# -- the commands


@pytest.fixture
def commands(plan, tmp_path):
    """Return a function that calls the command line on a file of the plan's document."""
    (tmp_path / "pipeline.yaml").write_text(DOCUMENT.format(folder=tmp_path))
    plan.checkpoint.mkdir(parents=True)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return call


def test_top_asks_the_run_that_another_process_holds(commands, plan, tmp_path):
    """Pass: by the document or by its checkpoint; a run that is not there is an error, a folder that is none too."""
    file = str(tmp_path / "pipeline.yaml")
    assert "nothing runs" in str(commands("top", file).exception)
    assert "no pipeline.json" in str(commands("top", str(plan.checkpoint)).exception)
    (plan.checkpoint / "pipeline.json").write_text("{}")
    with observed(plan, Silent()) as reporter:
        reporter.started(plan)
        reporter.batch(batch(plan, 4))
        shown = commands("top", str(plan.checkpoint), "--once").stdout
        assert "order" in shown
        told = json.loads(commands("top", file, "--once", "--format", "json").stdout)
        assert told["queries"][0]["last"]["batch"] == 4


def test_top_ends_with_the_run(commands, plan, tmp_path, monkeypatch):
    """Pass: it shows the run until that has ended, then why."""
    looks: list[int] = []
    looked: list[str] = []
    ending, asked, facts = threading.Event(), threading.Event(), Picture.facts

    def told(picture: Picture) -> dict[str, Any]:
        looks.append(1)
        if len(looks) == 2:  # the first has been answered
            asked.set()
        return facts(picture)

    monkeypatch.setattr(Picture, "facts", told)

    def run() -> None:
        with suppress(PipelineError), observed(plan, Silent()) as reporter:
            reporter.started(plan)
            ready.set()
            ending.wait(60)
            raise PipelineError("out: the disk is full")

    ready = threading.Event()
    running = threading.Thread(target=run)
    running.start()
    assert ready.wait(60)
    file = str(tmp_path / "pipeline.yaml")
    watching = threading.Thread(target=lambda: looked.append(commands("top", file).stdout))
    watching.start()
    assert asked.wait(60)
    ending.set()
    running.join(60)
    watching.join(60)
    assert "the run has ended: out: the disk is full" in looked[0]


def test_tap_shows_rows_of_the_run_that_another_process_holds(commands, plan, tmp_path):
    """Pass: as text and as JSON, without secrets; what is not there, and a run that is not, are errors."""
    file, samples = str(tmp_path / "pipeline.yaml"), Samples()
    assert "nothing runs" in str(commands("tap", file, "known").exception)
    with observed(plan, Silent(), samples):
        samples.begin(plan)
        assert "Did you mean 'known'" in str(commands("tap", file, "knwon").exception)
        samples.ask("known")
        samples.put("known", 7, [{"id": 1, "name": "Zoë 81818181"}, {"id": 2}])
        text = commands("tap", file, "known", "--once").stdout
        assert text.splitlines() == [
            'batch 7  {"id": 1, "name": "Zoë ${env:SHOP_SECRET}"}',
            'batch 7  {"id": 2}',
        ]
        told = commands("tap", file, "known", "--once", "--format", "json").stdout
        assert json.loads(told.splitlines()[1]) == {"batch": 7, "row": {"id": 2}}


def test_tap_ends_with_the_run(commands, plan, tmp_path):
    """Pass: each row once, also such as come while it looks; then how the run ended."""
    shown: list[str] = []

    class Heard(Samples):
        known = 0

        def ask(self, name: str, after: int = 0, most: int = 5) -> dict[str, Any]:
            self.known = after
            return super().ask(name, after, most)

    samples = Heard()
    with observed(plan, Silent(), samples):
        samples.begin(plan)
        file = str(tmp_path / "pipeline.yaml")
        tapping = threading.Thread(target=lambda: shown.append(commands("tap", file, "out").stdout))
        tapping.start()
        query = plan.queries[0].name
        for batch_id in range(3):
            wait_for(lambda: samples.wanted(query), 30)
            samples.put("out", batch_id, [{"id": batch_id}])
        wait_for(lambda: samples.known == 3, 30)
    tapping.join(60)
    rows = [f'batch {n}  {{"id": {n}}}' for n in range(3)]
    assert shown[0].splitlines() == [*rows, "the run has ended"]


def test_a_page_needs_an_address(commands, tmp_path):
    """Pass: what is none is refused before anything is served."""
    result = commands("page", str(tmp_path / "pipeline.yaml"), "--at", "nowhere")
    assert result.exit_code == 2
    assert "neither a port nor HOST:PORT" in result.output


def test_small_questions(commands):
    """Pass: versions, and every word by its own name."""
    assert commands("--version").stdout.startswith(f"mainstem {version('mainstem')}, pyspark ")
    assert "decode" in commands("plugins", "list").stdout
    assert commands("plugins", "list").stdout == commands("plugins").stdout
