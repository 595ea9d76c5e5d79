"""`mainstem ingress`: receivers apart from Spark, what is in their logs, and who holds segments."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest
from mainstem_ingress.log import Log
from mainstem_ingress.segments import file_of, numbers, open_segment
from mainstem_testkit.server import living

#: A source whose messages are the lines of files in a folder; a file is removed when acknowledged.
PLUGIN = '''
from pathlib import Path

from mainstem import hookimpl, option
from mainstem_ingress import (IngressOptions, IngressSource, Message, Receiver)
from mainstem import PermanentError


class SpoolOptions(IngressOptions):
    spool: str = option(description="Where the files are.")
    secret: str = option("", description="The word `wrong` is refused.")


class SpoolReceiver(Receiver):
    def connect(self, cursor):
        if self.options.secret == "wrong":
            raise PermanentError("the spool does not let us in")
        self.taken = set()

    def take(self, seconds):
        import time
        found = sorted(set(Path(self.options.spool, str(self.number)).glob("*.txt")) - self.taken)[:1]
        if not found:
            time.sleep(seconds)
        self.taken |= set(found)
        return [Message(file.read_bytes(), token=file) for file in found]

    def acknowledge(self, messages):
        for message in messages:
            message.token.unlink()
            self.taken.discard(message.token)


class Spool(IngressSource):
    """Reads a folder."""

    options: SpoolOptions

    def receiver(self):
        return SpoolReceiver


@hookimpl
def mainstem_sources():
    return {"spool": Spool}
'''
DOCUMENT = """
pipeline: spooled
checkpoint: ./checkpoints
trigger: {available_now: true}
sources:
  orders:
    use: spool
    with: {spool: ./spool, receivers: 2, linger: 10 ms, segment_rows: 1}
sinks:
  out: {use: files, from: orders, with: {path: ./out, format: jsonlines}}
"""
#: Stands in front of the real one, and tells that it was imported.
NO_SPARK = 'raise RuntimeError("pyspark was imported")\n'


class Place:
    """A folder with a document, a spool for each receiver, and the plugin's distribution."""

    def __init__(self, folder):
        self.folder = folder
        self.document = folder / "pipeline.yaml"
        self.document.write_text(DOCUMENT)
        site = folder / "site"
        info = site / "mainstem_spool-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: mainstem-spool\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text("[mainstem.sources]\nspool = mainstem_spool\n")
        (site / "mainstem_spool.py").write_text(PLUGIN)
        (site / "pyspark.py").write_text(NO_SPARK)
        self.env = {**os.environ, "PYTHONPATH": str(site)}
        self.log = Log(folder / "checkpoints" / "spooled" / "nodes" / "orders")

    def put(self, receiver, *values):
        folder = self.folder / "spool" / str(receiver)
        folder.mkdir(parents=True, exist_ok=True)
        for value in values:
            hidden = folder / f".{value}"
            hidden.write_text(value)
            hidden.rename(folder / f"{value}.txt")

    def spooled(self):
        return sorted(file.stem for file in self.folder.glob("spool/*/*.txt"))

    def stored(self, receiver):
        folder = self.log.receiver(receiver)
        found = numbers(folder) if folder.exists() else []
        batches = [open_segment(file_of(folder, number))[1] for number in found]
        return [value.decode() for b in batches for value in b.column("value").to_pylist()]

    def argv(self, command, *arguments):
        return [
            sys.executable,
            "-m",
            "mainstem",
            "ingress",
            command,
            str(self.document),
            *arguments,
        ]

    def call(self, command, *arguments):
        return subprocess.run(
            self.argv(command, *arguments), capture_output=True, text=True, check=False,
            timeout=60, env=self.env, cwd=self.folder,
        )  # fmt: skip

    def shown(self):
        answer = self.call("show", "--format", "json")
        assert answer.returncode == 0, answer.stderr
        (source,) = json.loads(answer.stdout)["sources"]
        return source

    @contextmanager
    def running(self, *arguments, **more):
        with (self.folder / f"out-{time.monotonic_ns()}").open("w+") as out:
            process = subprocess.Popen(
                self.argv("run", *arguments),
                **{"stdout": out, "stderr": subprocess.STDOUT, **more},
                env=self.env, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
            process.told = lambda: os.pread(out.fileno(), 1 << 20, 0).decode()
            try:
                yield process
            finally:
                for pid in living(process.pid):
                    os.kill(pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def wait_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.in_turn
def test_messages_are_taken_without_spark_until_a_signal(place, number):
    """Pass: stored and acknowledged; exit 0, no process left, a summary, and pyspark not imported."""
    place.put(0, "a", "b")
    place.put(1, "c")
    with place.running() as process:
        wait_for(lambda: not place.spooled())
        wait_for(lambda: process.told().count('"running"') >= 2)
        process.send_signal(number)
        assert process.wait(30) == 0, process.told()
        assert living(process.pid) == []
        lines = [json.loads(line) for line in process.told().splitlines()]
    assert (place.stored(0), place.stored(1)) == (["a", "b"], ["c"])
    assert [line["event"] for line in lines][0 :: len(lines) - 1] == ["started", "summary"]
    helpers = {line["helper"]: line["state"] for line in lines if line["event"] == "helper"}
    assert helpers == {"orders-0": "running", "orders-1": "running"}


@pytest.mark.in_turn
def test_a_kill_leaves_no_process_behind_and_loses_nothing(place):
    """Pass: after kill -9 the receivers store what they have and end; the next run goes on."""
    place.put(0, "a")
    with place.running() as process:
        wait_for(lambda: not place.spooled())
        assert len(living(process.pid)) == 3
        process.kill()
        wait_for(lambda: not living(process.pid))
    place.put(0, "b")
    with place.running():
        wait_for(lambda: not place.spooled())
    assert place.stored(0) == ["a", "b"]


@pytest.mark.in_turn
def test_who_comes_second_waits_and_takes_over(place):
    """Pass: it says `elsewhere` and takes nothing; when the first has ended it takes messages."""
    with place.running() as first:
        wait_for(lambda: '"ready": true' in first.told())
        with place.running() as second:
            wait_for(lambda: second.told().count("elsewhere") == 2)
            first.terminate()
            assert first.wait(30) == 0
            place.put(0, "a")
            wait_for(lambda: place.stored(0) == ["a"])
            wait_for(lambda: second.told().count('"state": "running"') == 2)


@pytest.mark.in_turn
def test_a_killed_receiver_is_started_again(place):
    """Pass: the news says which signal it was, and messages are taken again."""
    with place.running("--node", "orders") as process:
        wait_for(lambda: process.told().count('"running"') == 2)
        for pid in set(living(process.pid)) - {process.pid}:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: "was killed by signal 9" in process.told())
        place.put(1, "a")
        wait_for(lambda: place.stored(1) == ["a"])


@pytest.mark.in_turn
def test_a_refusal_for_good_ends_the_run(place):
    """Pass: exit 1, with the receiver's words after the node's name; the other receiver ends too."""
    with place.running("--set", "sources.orders.with.secret=wrong") as process:
        assert process.wait(30) == 1
        assert "error: orders: the spool does not let us in" in process.told()
        assert living(process.pid) == []


@pytest.mark.in_turn
def test_a_terminal_gets_a_table(place):
    """Pass: the table names receivers and rows; Ctrl-C ends the run in good order."""
    place.put(0, "a", "b")
    ours, theirs = pty.openpty()
    with place.running(stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        wait_for(lambda: not place.spooled())
        wait_for(lambda: "orders-0" in os.read(ours, 1 << 16).decode(errors="replace"))
        process.send_signal(signal.SIGINT)
        text = ""
        while True:
            try:
                text += os.read(ours, 1 << 16).decode(errors="replace")
            except OSError:  # the far end is closed
                break
        assert process.wait(30) == 0
    os.close(ours)
    assert "rows/s" in text
    assert "ended after" in text


@pytest.mark.in_turn
def test_a_document_without_such_sources_is_wrong(place):
    """Pass: exit 2, and the message says what is missing; for each of the commands."""
    place.document.write_text(
        "pipeline: p\nsources: {r: {use: rate}}\nsinks: {out: {use: console, from: r}}\n"
    )
    for command in (["run"], ["show"], ["forget", "r", "c"]):
        answer = place.call(*command)
        assert answer.returncode == 2, answer.stderr
        assert "no source takes messages through the ingress log" in answer.stderr


@pytest.mark.in_turn
def test_a_node_that_is_not_there_is_named(place):
    """Pass: exit 1, and the message lists those that are."""
    answer = place.call("run", "--node", "oders")
    assert answer.returncode == 1
    assert "'oders' on the ingress log. There are: orders." in answer.stderr


@pytest.mark.in_turn
def test_show_tells_segments_rows_and_bytes_and_who_takes(place):
    """Pass: sums are those of the files; `held` follows the process; nothing before the first run."""
    before = place.shown()
    assert (before["receivers"], before["consumers"]) == (
        [],
        [{"consumer": "spooled.orders.orders", "in_document": True, "receivers": None}],
    )
    place.put(0, "a", "b", "c")
    with place.running() as process:
        wait_for(lambda: not place.spooled())
        assert [each["held"] for each in place.shown()["receivers"]] == [True, True]
        process.terminate()
        process.wait(30)
    first, second = place.shown()["receivers"]
    folder = place.log.receiver(0)
    size = sum(file.stat().st_size for file in folder.glob("*.segment"))
    assert first.pop("unread_seconds") > 0
    counts = {"segments": 3, "first": 0, "end": 3, "rows": 3, "bytes": size}
    unread = {"unread_rows": 3, "unread_bytes": size}
    who = {"receiver": "0", "in_document": True, "held": False}
    assert first == {**who, **counts, **unread}
    assert (second["segments"], second["rows"], second["unread_seconds"]) == (0, 0, 0.0)
    text = place.call("show").stdout
    assert "3 segments (0 to before 3), 3 rows" in text
    assert "no process takes messages" in text


@pytest.mark.in_turn
def test_show_tells_how_far_consumers_are_and_forget_lets_a_stale_one_go(place):
    """Pass: rows behind by consumer; one that is not in the document is named, and can be forgotten."""
    place.put(0, "a", "b", "c")
    with place.running():
        wait_for(lambda: not place.spooled())
    with place.log.consumers.locked():
        place.log.consumers.put("spooled.orders.orders", {"0": 2, "1": 0})
        place.log.consumers.put("spooled.old.orders", {"0": 1})
    ours, stale = place.shown()["consumers"]
    assert (ours["in_document"], stale["in_document"]) == (True, False)
    assert [each["receivers"]["0"]["rows"] for each in (ours, stale)] == [1, 2]
    assert place.shown()["receivers"][0]["unread_rows"] == 2
    assert "spooled.old.orders: not in the document, and still holds" in place.call("show").stdout

    refused = place.call("forget", "orders", "spooled.nobody.orders")
    assert refused.returncode == 1
    assert "Consumers: spooled.old.orders, spooled.orders.orders." in refused.stderr
    refused = place.call("forget", "orders", "spooled.orders.orders")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert place.call("forget", "orders", "spooled.old.orders").returncode == 0
    assert [each["consumer"] for each in place.shown()["consumers"]] == ["spooled.orders.orders"]
    assert place.shown()["receivers"][0]["unread_rows"] == 1
    assert place.call("forget", "orders", "spooled.orders.orders", "--force").returncode == 0


@pytest.mark.in_turn
def test_what_a_forgotten_consumer_held_is_removed(place):
    """Pass: the receiver removes what the other consumer has read, and no more."""
    place.put(0, "a", "b", "c")
    with place.running() as process:
        wait_for(lambda: not place.spooled())
        with place.log.consumers.locked():
            place.log.consumers.put("spooled.old.orders", {"0": 0})
            place.log.consumers.put("spooled.orders.orders", {"0": 1})
        time.sleep(1.5)
        assert place.stored(0) == ["a", "b", "c"]
        assert place.call("forget", "orders", "spooled.old.orders").returncode == 0
        wait_for(lambda: place.stored(0) == ["b", "c"])
        assert process.poll() is None


@pytest.mark.in_turn
def test_show_names_a_damaged_segment(place):
    """Pass: exit 1 with the file's name."""
    folder = place.log.receiver(0)
    folder.mkdir(parents=True)
    with pa.OSFile(str(file_of(folder, 0)), "wb") as file:
        file.write(b"no segment")
    answer = place.call("show")
    assert answer.returncode == 1
    assert str(file_of(folder, 0)) in answer.stderr
