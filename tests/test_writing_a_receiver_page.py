"""What docs/writing-a-receiver.md prints runs as it is printed, over a queue that speaks in lines."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from mainstem_ingress import IngressOptions, Message, Receiver
from mainstem_testkit import serve, wait_for
from mainstem_testkit.server import living
from printed_plugin import LineQueue, Page
from ruamel.yaml import YAML

PAGE = Page("writing-a-receiver.md")
PIPELINE = {
    "pipeline": "mailing",
    "checkpoint": "./checkpoints",
    "trigger": {"available_now": True},
}
OUT = {"out": {"use": "files", "from": "jobs", "with": {"path": "./out", "format": "jsonlines"}}}


@pytest.fixture(scope="module")
def line_queue(request, tmp_path_factory):
    yield from serve(LineQueue, request, tmp_path_factory)


@pytest.fixture
def site(tmp_path, monkeypatch):
    yield from PAGE.installed("sources", tmp_path, monkeypatch)


def rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "out").glob("*/**/*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.in_turn
def test_the_plugin_of_the_page_and_its_commands(site, line_queue, pipeline):
    """Pass: messages are taken while no job runs, also after kill -9; a run reads each once."""
    (text,) = PAGE.blocks("yaml")
    sources = YAML(typ="safe").load(text)["sources"]
    sources["jobs"]["with"]["port"] = line_queue.port
    pipeline.document(**PIPELINE, sources=sources, sinks=OUT)
    command = [sys.executable, "-m", "mainstem", "ingress"]
    line_queue.ask("make mails")
    line_queue.ask("put mails a,b,c")
    for more in ("d", "e"):
        running = subprocess.Popen(
            [*command, "run", str(pipeline.file)], stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            line_queue.ask(f"put mails {more}")
            wait_for(lambda: line_queue.ask("left mails") == "0")
        finally:
            running.kill()
            running.wait()
        wait_for(lambda session=running.pid: not living(session))
    line_queue.ask("put mails f")
    ended = pipeline.command()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = [(row["number"], b64decode(row["value"])) for row in rows(pipeline.folder)]
    assert found == [(at, text.encode()) for at, text in enumerate("abcdef")]

    shown = subprocess.run(
        [*command, "show", str(pipeline.file), "--format", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (source,) = json.loads(shown.stdout)["sources"]
    (receiver,), (consumer,) = source["receivers"], source["consumers"]
    assert (receiver["held"], receiver["rows"]) == (False, 6)
    assert consumer["consumer"] == "mailing.jobs.jobs"
    folder = pipeline.folder / "checkpoints" / "mailing" / "nodes" / "jobs"
    assert Path(source["folder"]) == folder
    assert (folder / "receivers" / "0" / "000000000000.segment").exists()
    assert (folder / "receivers" / "0" / "lock").exists()
    assert (folder / "consumers" / "mailing.jobs.jobs.json").exists()


@pytest.mark.in_turn
def test_a_queue_that_is_not_there_ends_the_run(site, line_queue, pipeline):
    """Pass: exit 1 with the text of the receiver's `PermanentError`."""
    jobs = {"use": "jobs", "with": {"port": line_queue.port, "queue": "nowhere"}}
    pipeline.document(**PIPELINE, sources={"jobs": jobs}, sinks=OUT)
    command = [sys.executable, "-m", "mainstem", "ingress", "run", str(pipeline.file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "error: jobs: no queue nowhere" in ended.stderr


#: Those that need no process; the others run with the slow tests.
_QUICK = ("again", "acknowledg", "keep_their_order", "taking", "pause", "clos", "option")


def _standard_tests() -> list[Any]:
    from mainstem_testkit import ReceiverSuite

    slow = [pytest.mark.slow]
    return [
        pytest.param(name, marks=[] if any(word in name for word in _QUICK) else slow)
        for name in ReceiverSuite.standard_tests()
    ]


@pytest.mark.parametrize("test", _standard_tests())
@pytest.mark.in_turn
def test_the_suite_of_the_page_passes(site, line_queue, tmp_path, test):
    """Pass: each standard test, by the class that the page prints."""
    suite = PAGE.suite(line_queue, tmp_path / "place")
    getattr(suite, test)()


def test_the_page_tells_of_each_option_field_and_method():
    """Pass: those of IngressOptions, Message and Receiver, and the types of added columns."""
    wanted = [*IngressOptions.model_fields, *Message._fields]
    wanted += [n for n in vars(Receiver) if not n.startswith("_")]
    missing = [n for n in wanted if f"`{n}" not in PAGE.text]
    assert missing == []
