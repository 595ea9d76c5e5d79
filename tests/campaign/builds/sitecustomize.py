"""Breaks Mainstem on purpose, in every process that has this folder on Python's path.

`CAMPAIGN_BUILD` says how; the campaign must catch each of these (`campaign.controls`).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any


def acknowledges_first(module: Any) -> None:
    """Say that messages are stored, so that they are acknowledged, and store them a moment later."""
    import queue
    import threading
    import time

    whole = module.Store.store
    waiting: Any = queue.Queue()

    def work() -> None:
        while True:
            since, arguments = waiting.get()
            time.sleep(max(0.0, since + 1.0 - time.monotonic()))
            whole(*arguments)

    def store(self: Any, messages: Any, cursor: Any = None) -> None:
        if not getattr(self, "late", None):
            self.late = threading.Thread(target=work, daemon=True)
            self.late.start()
        waiting.put((time.monotonic(), (self, list(messages), cursor)))

    module.Store.store = store


def stale_positions(module: Any) -> None:
    """Store with each group the position before it, and none alone: that of an earlier moment."""
    whole = module.Store.store

    def store(self: Any, messages: Any, cursor: Any = None) -> None:
        before, self.of_before = getattr(self, "of_before", self.cursor), cursor
        whole(self, messages, before)

    module.Store.store = store
    module.Store.keep = lambda self, cursor: None


def forgets_its_ledger(module: Any) -> None:
    """Take no batch to be in, and note none."""
    module.Ledger.enter = lambda self, connection, batch, *, once: None


BUILDS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "acknowledges-first": ("mainstem_ingress.writer", acknowledges_first),
    "stale-positions": ("mainstem_ingress.writer", stale_positions),
    "forgets-its-ledger": ("mainstem_database_sql.sink.ledger", forgets_its_ledger),
}


class _Breaking:
    """Finds one module as others do, and breaks it when it has been loaded."""

    def __init__(self, name: str, harm: Callable[[Any], None]) -> None:
        self._name, self._harm = name, harm

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def broken(module: Any) -> None:
            load(module)
            self._harm(module)

        spec.loader.exec_module = broken  # type: ignore[method-assign]
        return spec


if build := os.environ.get("CAMPAIGN_BUILD"):
    sys.meta_path.insert(0, _Breaking(*BUILDS[build]))  # type: ignore[arg-type]
