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
    spark.driver.extraJavaOptions: '"-XX:ArchiveClassesAtExit={archive}"'
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

    Removes the archives of Javas and PySparks that are gone.

    Args:
        anew: whether one that is of use is replaced.

    Raises:
        MachineError: there is no Java that does so, or no place for the file.
    """
    find_java()
    try:
        archive = class_archive.place()
        folder = archive.parent
        if not class_archive.nameable(archive):
            raise MachineError(
                f"Java can't be told of {archive}: its name has a colon, quote or such"
            )
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not class_archive.ours(folder):
            raise MachineError(f"{folder} is not this user's alone: others could write there")
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _remove_old(folder)
            if anew or not class_archive.usable(archive):
                _make(archive)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"no archive of classes can be made: {error}") from None
    return archive


def _remove_old(folder: Path) -> None:
    """Remove what was left by makes that were killed, and archives of what is there no more."""
    for file in folder.iterdir():
        about = class_archive.about(file)
        if file.suffix == ".new" or (file.suffix in (".jsa", ".json") and not _lasts(about)):
            file.unlink(missing_ok=True)


def _lasts(about: Path) -> bool:
    try:
        of = json.loads(about.read_text())["of"]
        return Path(of["pyspark"]).exists() and Path(of["java"]).stat().st_mtime_ns == of["made"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mainstem-archive-") as place:
        folder, made = Path(place), Path(place, "classes.jsa")
        (folder / "in").mkdir()
        (folder / "in" / "one.jsonl").write_text('{"n": 1}\n')
        (folder / "small.yaml").write_text(_DOCUMENT.format(archive=made))
        theirs = (
            class_archive.JAVA_OPTIONS
        )  # with an archive of their own, there would be none of this
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-m", __name__, "small.yaml"],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in theirs},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            check=False,
        )
        if ended.returncode or not made.exists():
            lines = ended.stdout.decode(errors="replace").strip().splitlines()
            raise MachineError(
                f"Java wrote no archive of classes: {lines[-1] if lines else 'it says nothing'}"
            )
        told = {"bytes": made.stat().st_size, "of": class_archive.of()}
        (folder / "about").write_text(json.dumps(told))
        _put(folder / "about", class_archive.about(archive))
        _put(made, archive)


def _put(made: Path, file: Path) -> None:
    """Copy a file to where others read it: whole, or not at all."""
    aside = file.with_suffix(".new")
    shutil.copyfile(made, aside)
    aside.chmod(0o644)
    with aside.open("rb") as written:
        os.fsync(written.fileno())
    aside.replace(file)


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
