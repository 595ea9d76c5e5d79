"""Makes the archive of classes from which Java starts; see `mainstem.run.class_archive`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from mainstem.errors import MachineError
from mainstem.plan.build import make_plan
from mainstem.run import class_archive
from mainstem.run.runner import run
from mainstem.run.session import find_java

#: How long the small run and its Java's end may take, in seconds.
_PATIENCE = 300.0
#: Has what nearly every pipeline needs: messages, JSON, SQL, Parquet, a sink's Python.
_DOCUMENT = """
pipeline: small
checkpoint: ./checkpoints
trigger: {{available_now: true}}
spark:
  master: local[2]
  conf:
    spark.ui.enabled: false
    spark.sql.shuffle.partitions: 1
    spark.driver.extraJavaOptions: "-XX:ArchiveClassesAtExit={archive}"
sources:
  lines: {{use: files, with: {{path: ./in, format: message}}}}
operators:
  row: {{use: decode, from: lines, with: {{format: json, schema: n INT}}}}
  twice: {{use: select, from: row, with: {{columns: {{n: "2 * n"}}}}}}
sinks:
  out: {{use: files, from: twice, with: {{path: ./out, format: parquet}}}}
  bad: {{use: files, from: row.rejected, with: {{path: ./bad, format: jsonlines}}}}
"""


def make(*, anew: bool = True) -> Path:
    """Run a small document with a Java that writes down its classes; return the archive.

    Removes the archives of PySparks that are gone.

    Args:
        anew: whether one that is there is replaced.

    Raises:
        MachineError: there is no Java that does so, or no place for the file.
    """
    find_java()
    archive = class_archive.place()
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if anew or not archive.exists():
                _make(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{archive} can't be made: {error}") from None
    return archive


def _make(archive: Path) -> None:
    for about in archive.parent.glob("*.json"):
        if not Path(json.loads(about.read_text())["pyspark"]).exists():
            for gone in (about, about.with_suffix(".jsa"), about.with_suffix(".lock")):
                gone.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="mainstem-archive-") as place:
        folder, made = Path(place), Path(place, "classes.jsa")
        (folder / "in").mkdir()
        (folder / "in" / "one.jsonl").write_text('{"n": 1}\n')
        (folder / "small.yaml").write_text(_DOCUMENT.format(archive=made))
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-m", __name__, "small.yaml"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            check=False,
        )
        if ended.returncode or not made.exists():
            lines = ended.stdout.decode(errors="replace").strip().splitlines()
            raise MachineError(
                f"Java wrote no archive: {lines[-1] if lines else 'it says nothing'}"
            )
        aside = archive.with_suffix(".new")
        shutil.copyfile(made, aside)
        aside.chmod(0o644)
        told = {"bytes": aside.stat().st_size, "pyspark": str(class_archive.spark_folder())}
        class_archive.about(archive).write_text(json.dumps(told))
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(archive)


def _run(document: Path) -> None:
    """Run a document, and wait until its Java has ended: it writes the archive last."""
    run(make_plan(document))
    gateway = SparkContext._gateway
    assert gateway is not None  # noqa: S101
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
