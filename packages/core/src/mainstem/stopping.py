"""Stopping in good order: signals become an event."""

from __future__ import annotations

import signal
import threading
from _thread import start_new_thread
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM set `stop`; the second signal acts as before, also where this is nested.

    Outside the main thread, where Python handles no signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {n: each.before if isinstance(each, _Once) else each for n, each in found.items()}
    for number in found:
        signal.signal(number, _Once(stop, before[number]))
    try:
        yield
    finally:
        # Once the run is to stop, no outer handler takes the next signal for the first.
        for number, handler in (before if stop.is_set() else found).items():
            signal.signal(number, handler)


def set_by_signal(event: threading.Event) -> None:
    """Set an event, from what handles a signal.

    A handler runs in the main thread, between any two of its steps: also while that waits for the event
    and holds its lock, which it can't take twice.
    """
    start_new_thread(event.set, ())


class _Once:
    """Handles one signal; `before` is what handles the next."""

    def __init__(self, stop: threading.Event, before: Any) -> None:
        self._stop = stop
        self.before = before

    def __call__(self, number: int, _: Any) -> None:
        set_by_signal(self._stop)
        signal.signal(number, self.before)
