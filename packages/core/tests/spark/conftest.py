"""Documents run for real, in this process and on one Spark session that all tests share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mainstem.plan.making import make_plan
from mainstem.run.runner import run
from ruamel.yaml import YAML

#: Small and quick: what matters to tests is the time to the first batch.
CONF = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


class Pipeline:
    """A document in a folder of its own, with an `in` folder and helpers to look at what came out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "pipeline.yaml"
        (folder / "in").mkdir()

    def document(self, **parts: Any) -> Pipeline:
        """Write the document; what is left out is filled in for a bounded run of messages."""
        whole = {
            "pipeline": "test",
            "checkpoint": "./checkpoints",
            "trigger": {"available_now": True},
            "spark": {"master": "local[2]", "conf": CONF},
            "sources": {"lines": {"use": "files", "with": {"path": "./in", "format": "message"}}},
            **parts,
        }
        with self.file.open("w") as text:
            YAML(typ="safe", pure=True).dump(whole, text)
        return self

    def feed(self, name: str, lines: list[str] | list[dict[str, Any]] | bytes) -> None:
        """Move a file into the `in` folder."""
        if not isinstance(lines, bytes):
            text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
            lines = "".join(line + "\n" for line in text).encode()
        hidden = self.folder / f".{name}"
        hidden.write_bytes(lines)
        hidden.rename(self.folder / "in" / name)

    def run(self, **settings: Any) -> dict[str, Any]:
        """Run the document in this process until it ends; return the summary."""
        return run(make_plan(self.file), **settings)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return what a files sink wrote, read by the glob that its docs give."""
        folder = self.folder / name
        rows = []
        for file in sorted(folder.glob("*/**/*.json")):
            rows += [json.loads(line) for line in file.read_text().splitlines()]
        parquet = sorted(folder.glob("*/**/*.parquet"))
        if parquet:
            import pyarrow.parquet as pq

            for file in parquet:
                rows += pq.ParquetFile(file).read().to_pylist()
        return rows

    def spawn(self, **env: str) -> subprocess.Popen[str]:
        """Start `mainstem run` on the document in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "mainstem", "run", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
            start_new_session=True,
        )

    def command(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `mainstem run` on the document in a process of its own until it ends."""
        return subprocess.run(
            [sys.executable, "-m", "mainstem", "run", str(self.file), *arguments],
            capture_output=True,
            text=True,
            timeout=180,
            env={**os.environ, **env},
            check=False,
        )

    @staticmethod
    def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until a condition holds and return what it gave; fails after `seconds`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = condition()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError("waited in vain")

    @staticmethod
    def end(process: subprocess.Popen[str]) -> None:
        """Kill a process and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    @staticmethod
    def sink(name: str, stream: str | list[str], **more: Any) -> Mapping[str, Any]:
        """Return a files sink that writes JSON lines into a folder of its own name."""
        return {
            "use": "files",
            "from": stream,
            "with": {"path": f"./{name}", "format": "jsonlines"},
            **more,
        }


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path)
