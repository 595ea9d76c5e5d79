"""The process of a receiver, killed wherever it can hurt: nothing is lost, and nothing doubled."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from ingress_far import (
    Far,
    FarOptions,
    Process,
    QueueReceiver,
    StreamReceiver,
    messages,
    values_in,
    wait_for,
)
from mainstem_ingress.log import Log
from mainstem_ingress.process import Task
from mainstem_ingress.segments import file_of, numbers

POINTS = [
    "before-write",
    "after-write",
    "after-fsync",
    "after-rename",
    "after-folder-fsync",
    "before-acknowledge",
    "after-acknowledge",
]
COUNT = 60


def options(far: Far, **more: object) -> FarOptions:
    return FarOptions(port=far.port, segment_rows=10, linger="5 ms", **more)


def killed_and_again(
    far: Far, log: Log, tmp_path: Path, kind: type[QueueReceiver], point: str, passes: int
) -> None:
    """Let a process be killed at a point, and another one take all that is left."""
    trace = tmp_path / "trace"
    env = {
        "MAINSTEM_FAILPOINT": f"ingress.{point}:{passes}:kill",
        "MAINSTEM_FAILPOINT_TRACE": str(trace),
    }
    with Process(kind, log, options(far), env=env) as process:
        assert process.wait() == -9
    assert f"ingress.{point}:{passes}:kill" in trace.read_text().split()
    with Process(kind, log, options(far)) as process:
        process.told.wait_for(state="running", ready=True)
        if kind is QueueReceiver:
            wait_for(lambda: far.left == 0)
        else:
            wait_for(lambda: COUNT - 1 in values_in(log))
        assert process.release() == 0
    assert not list(log.receiver(0).glob("*.new"))
    found = numbers(log.receiver(0))
    assert found == list(range(len(found)))


SLOW = pytest.mark.slow


@pytest.mark.parametrize("passes", [2, *(pytest.param(n, marks=SLOW) for n in (1, 3))])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.in_turn
def test_a_kill_doubles_nothing_where_messages_have_ids(
    far: Far, log: Log, tmp_path: Path, point: str, passes: int
) -> None:
    far.put(messages(*range(COUNT), ids=True))
    killed_and_again(far, log, tmp_path, QueueReceiver, point, passes)
    assert sorted(values_in(log)) == list(range(COUNT))


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=() if point in ("after-fsync", "after-rename") else SLOW)
        for point in POINTS
    ],
)
@pytest.mark.in_turn
def test_a_kill_doubles_nothing_where_the_external_system_goes_on(
    far: Far, log: Log, tmp_path: Path, point: str
) -> None:
    """Without ids, by the cursor alone; and the order stays."""
    far.append(messages(*range(COUNT)))
    killed_and_again(far, log, tmp_path, StreamReceiver, point, 2)
    assert values_in(log) == list(range(COUNT))


@pytest.mark.parametrize(
    "point",
    [
        "before-acknowledge",
        *(pytest.param(p, marks=SLOW) for p in ("after-rename", "after-acknowledge")),
    ],
)
@pytest.mark.in_turn
def test_a_kill_loses_nothing_without_ids(far: Far, log: Log, tmp_path: Path, point: str) -> None:
    """What was stored and not acknowledged comes twice: that is what ids are for."""
    far.put(messages(*range(COUNT)))
    killed_and_again(far, log, tmp_path, QueueReceiver, point, 2)
    found = values_in(log)
    assert set(found) == set(range(COUNT))
    assert (len(found) > COUNT) == (point != "after-acknowledge")


@pytest.mark.in_turn
def test_one_message_then_idle_then_a_kill(far: Far, log: Log) -> None:
    """Acknowledged though nobody has read it and no second one came."""
    far.put(messages(1))
    with Process(QueueReceiver, log, options(far)) as process:
        wait_for(lambda: far.left == 0)
        process.running.kill()
    with Process(QueueReceiver, log, options(far)) as process:
        process.told.wait_for(state="running", ready=True)
        assert process.release() == 0
    assert values_in(log) == [1]
    assert [m.value for m in far.acknowledged] == [b"1"]


def test_it_ends_when_it_is_no_longer_wanted(far: Far, log: Log) -> None:
    far.put(messages(1, 2))
    with Process(QueueReceiver, log, FarOptions(port=far.port, linger="1 hour")) as process:
        wait_for(lambda: far.unacknowledged == 2)
        assert process.release() == 0
    assert values_in(log) == [1, 2]
    assert far.left == 0


@pytest.mark.in_turn
def test_it_ends_with_who_started_it(far: Far, log: Log) -> None:
    """Killed, so that nobody says goodbye."""
    task = Task("ingress_far:QueueReceiver", "far", 0, log.folder, options(far))
    parent = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-m', 'mainstem_ingress.process'], stdin=subprocess.PIPE)\n"
        f"p.stdin.write({task.encoded()!r}); p.stdin.flush()\n"
        "time.sleep(600)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", parent],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    far.put(messages(1))
    wait_for(lambda: far.left == 0)
    running.kill()
    for line in running.stdout:  # ends when nobody holds it any more: the child has ended
        json.loads(line)
    running.wait()
    running.stdout.close()
    assert values_in(log) == [1]


@pytest.mark.in_turn
def test_a_signal_ends_it_as_well(far: Far, log: Log) -> None:
    with Process(QueueReceiver, log, options(far)) as process:
        process.told.wait_for(state="running")
        process.running.terminate()
        assert process.wait() == 0


@pytest.mark.in_turn
def test_an_interrupt_is_for_who_started_it(far: Far, log: Log) -> None:
    import signal

    with Process(QueueReceiver, log, options(far)) as process:
        process.told.wait_for(state="running")
        process.running.send_signal(signal.SIGINT)
        far.put(messages(1))
        process.told.wait_for(rows=1)
        assert process.release() == 0


def test_what_no_retry_mends_is_told_and_ends_it(far: Far, log: Log) -> None:
    with Process(QueueReceiver, log, options(far, password="wrong")) as process:
        assert process.wait() == 1
    assert process.told[-1] == {"state": "failed", "why": "the password is wrong"}


def test_a_log_that_cannot_be_used_is_told_and_ends_it(far: Far, log: Log) -> None:
    log.receiver(0).mkdir(parents=True)
    file_of(log.receiver(0), 3).write_bytes(b"no segment")
    with Process(QueueReceiver, log, options(far)) as process:
        assert process.wait() == 1
    assert process.told[-1]["state"] == "failed"
    assert "000000000003.segment can't be read" in process.told[-1]["why"]


@pytest.mark.in_turn
def test_a_second_process_waits_and_takes_over(far: Far, log: Log) -> None:
    with (
        Process(QueueReceiver, log, options(far)) as first,
        Process(QueueReceiver, log, options(far)) as second,
    ):
        both = [first, second]
        wait_for(lambda: {p.told[-1]["state"] for p in both if p.told} == {"running", "elsewhere"})
        holder = next(p for p in both if p.told[-1]["state"] == "running")
        other = next(p for p in both if p is not holder)
        assert other.told[-1]["ready"], "a bounded run need not wait for it"
        far.put(messages(*range(5)))
        holder.told.wait_for(rows=5)
        holder.running.kill()
        other.told.wait_for(state="running")
        far.put(messages(*range(5, 9)))
        other.told.wait_for(rows=4)
        assert other.release() == 0
    assert sorted(values_in(log)) == list(range(9))


@pytest.mark.in_turn
def test_one_that_waits_ends_when_it_is_no_longer_wanted(far: Far, log: Log) -> None:
    with Process(QueueReceiver, log, options(far)) as first:
        first.told.wait_for(state="running")
        with Process(QueueReceiver, log, options(far)) as second:
            second.told.wait_for(state="elsewhere")
            assert second.release() == 0
        assert first.release() == 0


def test_a_task_holds_secrets_and_goes_through_a_pipe(far: Far, log: Log) -> None:
    secret = "s3cret-of-the-far-side"
    task = Task("ingress_far:QueueReceiver", "far", 0, log.folder, options(far, password=secret))
    assert pickle.loads(pickle.dumps(task)) == task
    assert task.encoded().count(b"\n") == 1
    with Process(QueueReceiver, log, options(far, password=secret)) as process:
        process.told.wait_for(state="running")
        shown = Path(f"/proc/{process.running.pid}")
        assert secret.encode() not in (shown / "cmdline").read_bytes()
        assert secret.encode() not in (shown / "environ").read_bytes()
        assert process.release() == 0
    assert not any(secret in json.dumps(facts) for facts in process.told)
