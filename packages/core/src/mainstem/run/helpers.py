"""Starts the helper processes that components need, watches them, and ends them. Knows no Spark."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from mainstem.contracts.abilities import HelperProcess, Supervised
from mainstem.durable import made_folder
from mainstem.errors import PipelineError
from mainstem.observation.reporter import Reporter
from mainstem.patience import pause_after
from mainstem.plan.model import Plan

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
#: A helper that lasted so long is restarted with short pauses, in seconds.
_LASTED = 60.0
#: How long a helper may take to finish what it has in hand, in seconds.
_ENDING = 30.0
_POLL = 0.05


class Helpers:
    """The helper processes of a plan's components; use it in a `with`.

    Args:
        reporter: is told what each does, whenever it tells something new.
        only: the nodes whose helpers are meant; all when left out.
    """

    def __init__(self, plan: Plan, reporter: Reporter, only: Iterable[str] | None = None) -> None:
        self._plan = plan
        self._reporter = reporter
        chosen = set(plan.nodes if only is None else only)
        self._helpers = [
            Helper(name, process)
            for name, node in plan.nodes.items()
            if name in chosen and isinstance(node.component, Supervised)
            for process in _processes(plan, name, node.component)
        ]

    def __enter__(self) -> Helpers:
        try:
            for helper in self._helpers:
                helper.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def __len__(self) -> int:
        return len(self._helpers)

    def watch(self) -> None:
        """Pass on what the helpers told, and start again those that ended.

        Raises:
            PipelineError: one says that no restart would help.
        """
        for helper in self._helpers:
            for facts in helper.watch():
                if facts.get("state") == "failed":
                    why = self._plan.scrubber.clean(str(facts.get("why", "failed")))
                    raise PipelineError(f"{helper.node}: {why}", node=helper.node)
                self._tell(helper, facts)

    def ready(self, nodes: Collection[str]) -> bool:
        """Whether each helper of some nodes has said that a bounded run can begin."""
        return all(helper.ready for helper in self._helpers if helper.node in nodes)

    def wait_until_ready(self, stop: threading.Event) -> None:
        """Wait until each helper has said that a bounded run can begin, or `stop` is set.

        Raises:
            PipelineError: one says that no restart would help.
        """
        while not stop.is_set() and not all(helper.ready for helper in self._helpers):
            self.watch()
            self._reporter.tick()
            stop.wait(_POLL)
        self.watch()

    def end(self) -> None:
        """Tell all helpers that they are no longer wanted, and wait for them."""
        for helper in self._helpers:
            helper.release()
        until = time.monotonic() + _ENDING
        for helper in self._helpers:
            helper.end(max(0.1, until - time.monotonic()))
            for facts in helper.heard():
                self._tell(helper, facts)

    def _tell(self, helper: Helper, facts: Mapping[str, Any]) -> None:
        self._reporter.helper(
            {
                "event": "helper",
                "pipeline": self._plan.pipeline,
                "node": helper.node,
                "helper": helper.process.name,
                **self._plan.scrubber.clean_all(facts),
            }
        )


def _processes(plan: Plan, name: str, component: Supervised) -> list[HelperProcess]:
    return list(component.processes(name, made_folder(plan.home(name))))


#: The names of what any program needs of its environment; where one ends in `_`, all that begin so.
_NEEDED = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_", "TZ", "TZDIR", "TMPDIR", "TEMP", "TMP",
    "LD_", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "all_proxy",
    "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
#: Beginnings of the names of what Python needs, and of what arms crash points.
_BEGINNINGS = ("PYTHON", "MAINSTEM_FAILPOINT")


def inherited(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a helper gets: those that any program needs, and some more.

    Args:
        more: beginnings of names.
    """
    begin = (*(name for name in _NEEDED if name.endswith("_")), *_BEGINNINGS, *more)
    return {
        name: value
        for name, value in environment.items()
        if name in _NEEDED or name.startswith(begin)
    }


class Helper:
    """One helper process, over all its lives.

    Attributes:
        ready: whether it has said that a bounded run can begin.
    """

    def __init__(self, node: str, process: HelperProcess) -> None:
        self.node = node
        self.process = process
        self.ready = False
        self._running: subprocess.Popen[bytes] | None = None
        self._told: deque[dict[str, Any]] = deque()
        self._errors: deque[str] = deque(maxlen=5)
        self._readers: list[threading.Thread] = []
        self._ended = 0
        self._began = 0.0
        self._again = 0.0

    def start(self) -> None:
        """Start the process."""
        self._began = time.monotonic()
        self._errors.clear()
        self._told = deque()  # what a reader of an earlier life still hears stays with that
        running = subprocess.Popen(  # noqa: S603  # a component that the document uses says what
            list(self.process.argv),
            env={**inherited(os.environ, self.process.inherits), **self.process.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=self.process.descriptors,
        )
        self._running = running
        assert running.stdin is not None  # noqa: S101
        with suppress(BrokenPipeError):  # it ended at once; `watch` finds out
            running.stdin.write(self.process.stdin)
            running.stdin.flush()
        self._readers = [
            threading.Thread(target=read, args=given, name=self.process.name, daemon=True)
            for read, given in (
                (self._hear, (running.stdout, self._told)),
                (self._keep, (running.stderr,)),
            )
        ]
        for reader in self._readers:
            reader.start()

    def watch(self) -> Iterable[Mapping[str, Any]]:
        """Return what the process told since the last time; start it again if it has ended."""
        found = []
        if self._running is None:
            if time.monotonic() >= self._again:
                self.start()
        elif (code := self._running.poll()) is not None:
            for reader in self._readers:
                reader.join(1.0)
            self._close()
            found = self.heard()
            if not any(facts.get("state") == "failed" for facts in found):
                found.append(self._restart(code))
            return found
        return self.heard()

    def release(self) -> None:
        """Tell the process that it is no longer wanted."""
        if self._running is not None and self._running.stdin is not None:
            with suppress(OSError):
                self._running.stdin.close()

    def end(self, seconds: float) -> None:
        """Wait for the process to end; kill it if it takes longer."""
        if self._running is None:
            return
        try:
            self._running.wait(seconds)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        for reader in self._readers:
            reader.join(1.0)
        self._close()

    def _restart(self, code: int) -> dict[str, Any]:
        if time.monotonic() - self._began > _LASTED:
            self._ended = 0
        self._ended += 1
        self._again = time.monotonic() + pause_after(self._ended, _FIRST_PAUSE, _LONGEST_PAUSE)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        last = f": {self._errors[-1]}" if self._errors else ""
        return {"state": "restarting", "why": f"{how}{last}"}

    def _close(self) -> None:
        """Let go of an ended process. What it wrote to is closed by who reads it: at its end, which
        does not come while a process that it left behind has it open.
        """
        running, self._running = self._running, None
        if running is not None and running.stdin is not None:
            with suppress(OSError):
                running.stdin.close()

    def heard(self) -> list[dict[str, Any]]:
        """Return what the process told since the last time."""
        found = []
        while self._told:
            found.append(self._told.popleft())
        return found

    def _hear(self, pipe: Any, told: deque[dict[str, Any]]) -> None:
        last: dict[str, Any] = {}
        with pipe:
            for line in pipe:
                try:
                    facts = json.loads(line)
                except ValueError:
                    continue
                if isinstance(facts, dict) and facts != last:
                    last = facts
                    self.ready = self.ready or bool(facts.get("ready"))
                    told.append(facts)

    def _keep(self, pipe: Any) -> None:
        with pipe:
            for line in pipe:
                text = line.decode(errors="replace").strip()
                if text:
                    self._errors.append(text)
