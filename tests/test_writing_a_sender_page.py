"""What docs/writing-a-sender.md prints runs as it is printed, over a queue that speaks in lines."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from mainstem.errors import PermanentError
from mainstem_egress import EgressOptions, OutMessage, Sender
from mainstem_testkit import SenderSuite, serve
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "writing-a-sender.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def _queue_server() -> Any:
    """The server of the kit's own tests."""
    file = ROOT / "packages" / "testkit" / "tests" / "zoo" / "queue_server.py"
    spec = spec_from_file_location("line_queue_server", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SERVER = _queue_server()


class LineQueue(SERVER.QueueServer):  # type: ignore[misc, name-defined]
    name = "line_queue"

    def read(self, queue: str) -> list[str]:
        """Return the texts of a queue: what its journal has."""
        puts = (line.split(" ", 2) for line in (self.folder / "journal").read_text().splitlines())
        return [put[2].strip() for put in puts if put[:2] == ["put", queue]]


@pytest.fixture(scope="module")
def line_queue(request, tmp_path_factory):
    yield from serve(LineQueue, request, tmp_path_factory)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Install the plugin of the page: what an installer would write, on everybody's path."""
    module, _ = blocks("python")
    (entry,) = blocks("toml")
    site = tmp_path / "site"
    info = site / "mainstem_jobs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mainstem-jobs\nVersion: 1.0\n")
    group, line = entry.splitlines()
    word, value = line.split(" = ")
    assert group == '[project.entry-points."mainstem.sinks"]'
    (info / "entry_points.txt").write_text(f"[mainstem.sinks]\n{word} = {value.strip(chr(34))}\n")
    (site / "mainstem_jobs.py").write_text(module)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    yield site
    sys.modules.pop("mainstem_jobs", None)


@pytest.mark.in_turn
def test_the_plugin_of_the_page_writes_a_batch(site, line_queue, pipeline):
    """Pass: by a document, each line is in the queue once, and one with a comma is refused."""
    (text,) = blocks("yaml")
    sinks = YAML(typ="safe").load(text)["sinks"]
    sinks["jobs"]["with"]["port"] = line_queue.port
    pipeline.document(sinks={**sinks, "bad": pipeline.sink("bad", "jobs.rejected")})
    pipeline.feed("1.txt", [*(str(number) for number in range(20)), "a,b"])
    ended = pipeline.command()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(map(int, line_queue.read("mails"))) == list(range(20))
    (bad,) = pipeline.rows("bad")
    assert bad["reason"] == "a job is one line without commas, and not empty"


def _suite(line_queue: Any, place: Path) -> Any:
    _, code = blocks("python")
    names: dict[str, Any] = {"__name__": "printed"}
    exec(code, names)
    suite = names["TestJobs"]()
    suite.server = line_queue
    suite._move(place)
    return suite


@pytest.mark.parametrize("test", SenderSuite.standard_tests())
def test_the_suite_of_the_page_passes(site, line_queue, tmp_path, test):
    """Pass: each standard test, by the class that the page prints."""
    getattr(_suite(line_queue, tmp_path / "place"), test)()


#: What can be wrong with a sender: the line that is changed, and the test that finds it.
FAULTS = {
    "accepts what is not answered": (
        "        return [self.answer(line) for line in self.lines(seconds if self.sent else 0)]",
        "        self.lines(0)\n        return [Answer(self.sent.popleft(), 10**9) for _ in [*self.sent]]",
        "test_an_answer_that_is_lost_loses_nothing",
    ),
    "forgets what it kept": (
        "            self.socket.sendall(b\"\".join(kept))",
        "            self.socket.sendall(b\"\".join(kept[:40]))",
        "test_each_message_arrives_once_and_in_its_order",
    ),
    "out of order": (
        "            self.socket.sendall(b\"\".join(kept))",
        "            self.socket.sendall(b\"\".join(reversed(kept)))",
        "test_each_message_arrives_once_and_in_its_order",
    ),
    "retries a wrong password": (
        "            raise PermanentError(lines[0].decode())",
        "            raise TransientError(lines[0].decode())",
        "test_what_no_retry_mends_fails_at_once",
    ),
    "tells the password": (
        "            raise PermanentError(lines[0].decode())",
        "            raise PermanentError(self.options.password.get_secret_value())",
        "test_what_no_retry_mends_fails_at_once",
    ),
    "leaves its socket open": (
        "            self.socket.close()",
        "            LEFT.append(self.socket)",
        "test_nothing_is_left_behind",
    ),
    "swallows what does not fit": (
        '            raise Refusal("a job is one line without commas, and not empty")',
        "            content = b\"\"",
        "test_what_is_refused_comes_back_with_a_reason",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sender_that_is_wrong_is_caught(site, line_queue, tmp_path, fault, monkeypatch):
    """Pass: the standard test that the fault is about fails on it."""
    right, wrong, test = FAULTS[fault]
    module = site / "mainstem_jobs.py"
    code = module.read_text()
    assert code.count(right) == 1
    module.write_text(code.replace(right, wrong) + "\n\nLEFT = []\n")
    suite = _suite(line_queue, tmp_path / "place")
    soon = {"give_up": "3 seconds", "answer_timeout": "1 second"}
    monkeypatch.setattr(suite, "options", lambda: {**type(suite).options(suite), **soon})
    with pytest.raises((AssertionError, PermanentError)):
        getattr(suite, test)()


def test_the_page_tells_of_each_option_field_and_method():
    """Pass: those of EgressOptions, OutMessage and Sender."""
    wanted = [*EgressOptions.model_fields, *OutMessage._fields]
    wanted += [n for n in vars(Sender) if not n.startswith("_")]
    assert [n for n in wanted if f"`{n}" not in PAGE] == []
