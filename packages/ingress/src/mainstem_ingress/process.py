"""`python -m mainstem_ingress.process`: one receiver, as a process that somebody watches.

Its task comes as one line on standard input, which then stays open for as long as it is wanted; what it
does goes out as JSON lines on standard output. It ends with 0 when it is no longer wanted, and with 1
after a line with the state `failed`.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import pickle
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mainstem import PermanentError
from mainstem.durable import made_folder, sync_folder
from mainstem.stopping import set_by_signal

from mainstem_ingress.errors import LogError
from mainstem_ingress.log import Log, take_lock
from mainstem_ingress.loop import Taking, Tell
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import fields_of
from mainstem_ingress.writer import Store

_ELSEWHERE_WAIT = 0.5

#: After how many new objects Python looks for garbage. A group of messages is none and would be looked at
#: each time: at the usual 700 that costs as much as to read the messages.
_GARBAGE = 200_000


@dataclass(frozen=True)
class Task:
    """What a process is to do.

    `receiver` is `module:Class`, `folder` that of the log, `extra` the names and types of the columns
    that the source adds.
    """

    receiver: str
    node: str
    number: int
    folder: Path
    options: IngressOptions
    extra: tuple[tuple[str, str], ...] = ()

    def encoded(self) -> bytes:
        """Return the line that the process reads. It holds secrets: only ever a pipe's content."""
        return base64.b64encode(pickle.dumps(self)) + b"\n"


def work(task: Task, tell: Tell, stop: threading.Event) -> None:
    """Do a task until told to stop.

    Raises:
        PermanentError: the external system refuses for good.
        LogError: the log can't be used.
    """
    module, _, name = task.receiver.partition(":")
    try:
        made: type[Receiver] = getattr(import_module(module), name)
    except Exception as error:
        why = f"{task.receiver} can't be imported: {type(error).__name__}: {error}"
        raise PermanentError(why) from error
    log = Log(task.folder)
    folder = made_folder(log.receiver(task.number))
    # What was made by a process that was killed may not be there for good yet.
    sync_folder(folder.parent)
    sync_folder(log.folder)
    held = take_lock(folder / "lock")
    while held is None:
        # `mainstem ingress run` and `mainstem run` can be started beside each other.
        tell({"state": "elsewhere", "why": "another process takes its messages", "ready": True})
        if stop.wait(_ELSEWHERE_WAIT):
            return
        held = take_lock(folder / "lock")
    with ExitStack() as locks:
        locks.enter_context(held)
        store = Store(log, task.number, task.options, fields_of(task.extra))
        receiver = made(task.options, task.number, task.node)
        receiver.log = log
        retentions = _retentions(log, task, locks)
        Taking(receiver, store, retentions, task.options, tell, stop).work()


def _retentions(log: Log, task: Task, locks: ExitStack) -> Sequence[Retention]:
    """Return what tidies up: our own folder and, for the first receiver, those that have none."""
    found = [Retention(log, str(task.number), task.options)]
    if task.number == 0:
        for name in log.receivers():
            if int(name) < task.options.receivers:
                continue
            held = take_lock(log.receiver(name) / "lock")
            if held is not None:
                locks.enter_context(held)
                found.append(Retention(log, name, task.options))
    return found


def main() -> int:
    """Run the process; return its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: set_by_signal(stop))
    task = pickle.loads(base64.b64decode(sys.stdin.buffer.readline()))  # noqa: S301  # from our parent
    threading.Thread(target=_follow, args=(stop,), name="ingress-parent", daemon=True).start()
    collect_seldom()
    try:
        work(task, _tell, stop)
    except (PermanentError, LogError) as error:
        _tell({"state": "failed", "why": str(error)})
        return 1
    return 0


def collect_seldom() -> None:
    """Let Python look for garbage so seldom that groups of messages cost nothing by it."""
    gc.set_threshold(_GARBAGE)


def _follow(stop: threading.Event) -> None:
    """Stop when standard input ends: with the process that wants us."""
    while os.read(0, 4096):
        pass
    stop.set()


def _tell(facts: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # our parent is gone: standard input ends too
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    sys.exit(main())
