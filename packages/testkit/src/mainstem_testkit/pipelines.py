"""A pipeline in a folder of its own: its document, what goes in, what came out, and its processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan
from ruamel.yaml import YAML

from mainstem_testkit.server import living
from mainstem_testkit.turns import ALL, TURN

T = TypeVar("T")

#: Spark's expressions are worked out by its interpreter: classes for each query of a handful of rows cost
#: more than the query. Where all tests are run, by those classes, as outside tests.
_INTERPRETED: Mapping[str, str | int | float | bool] = (
    {}
    if os.environ.get(TURN) == ALL
    else {"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
)
#: A small session, which waits for its workers also on a machine that is busy with other tests.
CONF: Mapping[str, str | int | float | bool] = {
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 2,
    **_INTERPRETED,
}
#: Two cores, and a second try for a task that fails.
MASTER = "local[2,2]"


class PipelineFolder:
    """A pipeline in a folder: `pipeline.yaml`, an `in` folder, and whatever the pipeline makes.

    Args:
        folder: made when it is not there yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "pipeline.yaml"
        (folder / "in").mkdir(parents=True, exist_ok=True)

    def document(self, **parts: Any) -> PipelineFolder:
        """Write the document; what is left out is filled in for a bounded run over messages in `in`."""
        whole = {
            "pipeline": "test",
            "checkpoint": "./checkpoints",
            "trigger": {"available_now": True},
            "spark": {"master": MASTER, "conf": dict(CONF)},
            "sources": {"lines": {"use": "files", "with": {"path": "./in", "format": "message"}}},
            **parts,
        }
        with self.file.open("w") as text:
            YAML(typ="safe", pure=True).dump(whole, text)
        return self

    @staticmethod
    def sink(name: str, stream: str | list[str], **more: Any) -> Mapping[str, Any]:
        """Return a `files` sink that writes JSON lines into a folder of its own name."""
        return {
            "use": "files",
            "from": stream,
            "with": {"path": f"./{name}", "format": "jsonlines"},
            **more,
        }

    def feed(self, name: str, lines: Sequence[str] | Sequence[dict[str, Any]] | bytes) -> None:
        """Move a file into the `in` folder."""
        if not isinstance(lines, bytes):
            text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
            lines = "".join(line + "\n" for line in text).encode()
        hidden = self.folder / f".{name}"
        hidden.write_bytes(lines)
        hidden.rename(self.folder / "in" / name)

    def plan(self) -> Plan:
        """Return the document's plan.

        Raises:
            DocumentError: with every problem found.
        """
        return make_plan(self.file)

    def run(self, **settings: Any) -> dict[str, Any]:
        """Run the document in this process, on the shared session, until it ends.

        Args:
            settings: as `mainstem.run.runner.run` takes them.

        Returns:
            The summary.
        """
        from mainstem.run.runner import run

        return run(self.plan(), **settings)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return what a `files` sink wrote, read by the glob that its docs give."""
        folder = self.folder / name
        rows: list[dict[str, Any]] = []
        for file in sorted(folder.glob("*/**/*.json")):
            rows += [json.loads(line) for line in file.read_text().splitlines()]
        parquet = sorted(folder.glob("*/**/*.parquet"))
        if parquet:
            import pyarrow.parquet as pq

            for file in parquet:
                rows += pq.ParquetFile(file).read().to_pylist()
        return rows

    def start(self, *arguments: str, **env: str) -> Process:
        """Start `mainstem run` on the document in a process of its own."""
        return Process([str(self.file), *arguments], env)

    def command(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `mainstem run` on the document in a process of its own until it ends."""
        with self.start(*arguments, **env) as process:
            return process.wait()

    def copy(self, folder: Path) -> PipelineFolder:
        """Return a copy of the whole folder, checkpoint and all."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return PipelineFolder(folder)


class Process:
    """A `mainstem run` in a process of its own, which leads a session of its own.

    Use it in a `with`: at its end everything that is left of the session is killed.
    """

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        self.arguments = arguments
        # Files, not pipes: nobody need read while it runs.
        self._out, self._err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mainstem", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            text=True,
            env={**os.environ, **env},
            start_new_session=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def wait_for(self, condition: Callable[[], T], seconds: float = 60) -> T:
        """Wait until a condition holds and return what it gave.

        Raises:
            AssertionError: it does not hold in time, or the process ended before.
        """

        def holds() -> T:
            ended = not self.running
            found = condition()
            if ended and not found:
                raise AssertionError(f"ended with {self._process.returncode}:\n{self._told()}")
            return found

        return wait_for(holds, seconds)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process alone, not to what it started."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def wait(self, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        """Wait for the process to end; return its exit code and what it printed.

        Raises:
            AssertionError: it still runs after so many seconds.
        """
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {seconds} s:\n{self._told()}") from None
        out, err = (_text(file) for file in (self._out, self._err))
        return subprocess.CompletedProcess(self.arguments, code, out, err)

    def living(self) -> list[int]:
        """Return the process, if it has not ended, and those that it started and that have not."""
        return living(self.pid)

    def end(self) -> None:
        """Kill the process and everything that it started."""
        for pid in self.living():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for file in (self._out, self._err):
            file.close()

    def _told(self) -> str:
        return "\n".join(filter(None, (_text(self._out)[-4000:], _text(self._err)[-4000:])))


def wait_for(condition: Callable[[], T], seconds: float = 60) -> T:
    """Wait until a condition holds and return what it gave.

    Raises:
        AssertionError: it does not hold after so many seconds.
    """
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s in vain")
        time.sleep(0.05)
    return found


def _text(file: Any) -> str:
    # The process shares the file's position: read by another one.
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")
