"""What docs/writing-a-sender.md prints runs as it is printed, over a queue that speaks in lines."""

from __future__ import annotations

import pytest
from mainstem.errors import PermanentError
from mainstem_egress import EgressOptions, OutMessage, Sender
from mainstem_testkit import SenderSuite, serve
from printed_plugin import LineQueue, Page
from ruamel.yaml import YAML

PAGE = Page("writing-a-sender.md")


@pytest.fixture(scope="module")
def line_queue(request, tmp_path_factory):
    yield from serve(LineQueue, request, tmp_path_factory)


@pytest.fixture
def site(tmp_path, monkeypatch):
    yield from PAGE.installed("sinks", tmp_path, monkeypatch)


@pytest.mark.in_turn
def test_the_plugin_of_the_page_writes_a_batch(site, line_queue, pipeline):
    """Pass: by a document, each line is in the queue once, and one with a comma is refused."""
    (text,) = PAGE.blocks("yaml")
    sinks = YAML(typ="safe").load(text)["sinks"]
    sinks["jobs"]["with"]["port"] = line_queue.port
    pipeline.document(sinks={**sinks, "bad": pipeline.sink("bad", "jobs.rejected")})
    pipeline.feed("1.txt", [*(str(number) for number in range(20)), "a,b"])
    ended = pipeline.command()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(map(int, line_queue.read("mails"))) == list(range(20))
    (bad,) = pipeline.rows("bad")
    assert bad["reason"] == "a job is one line without commas, and not empty"


@pytest.mark.parametrize("test", SenderSuite.standard_tests())
@pytest.mark.in_turn
def test_the_suite_of_the_page_passes(site, line_queue, tmp_path, test):
    """Pass: each standard test, by the class that the page prints."""
    getattr(PAGE.suite(line_queue, tmp_path / "place"), test)()


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
        '            raise RefusedRowError("a job is one line without commas, and not empty")',
        "            content = b\"\"",
        "test_what_is_refused_comes_back_with_a_reason",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.in_turn
def test_a_sender_that_is_wrong_is_caught(site, line_queue, tmp_path, fault, monkeypatch):
    """Pass: the standard test that the fault is about fails on it."""
    right, wrong, test = FAULTS[fault]
    module = site / "mainstem_jobs.py"
    code = module.read_text()
    assert code.count(right) == 1
    module.write_text(code.replace(right, wrong) + "\n\nLEFT = []\n")
    suite = PAGE.suite(line_queue, tmp_path / "place")
    soon = {"give_up": "3 seconds", "answer_timeout": "1 second"}
    monkeypatch.setattr(suite, "options", lambda: {**type(suite).options(suite), **soon})
    with pytest.raises((AssertionError, PermanentError)):
        getattr(suite, test)()


def test_the_page_tells_of_each_option_field_and_method():
    """Pass: those of EgressOptions, OutMessage and Sender."""
    wanted = [*EgressOptions.model_fields, *OutMessage._fields]
    wanted += [n for n in vars(Sender) if not n.startswith("_")]
    assert [n for n in wanted if f"`{n}" not in PAGE.text] == []
