"""A quick start for Java: an archive of Spark's loaded classes, made once for each machine.

A test that kills a process starts Spark anew each time. With the archive, and without Java's second
compiler, that takes some 5 s instead of 9. The shared session goes without that compiler too: it costs
more than it saves where each query is another one and has a handful of rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

from mainstem.run.session import find_java as find_java

from mainstem_testkit.server import living

_OPTIONS = "JDK_JAVA_OPTIONS"
_PATIENCE = 90.0


def start_java_quickly() -> None:
    """Let every Java that this process starts from now on start quickly.

    Does nothing where `JDK_JAVA_OPTIONS` is set already.
    """
    if _OPTIONS in os.environ:
        return
    archive = _archive()
    if not archive.exists():
        try:
            _once(archive)
        except (OSError, subprocess.SubprocessError) as error:
            message = f"Java will start slowly, for {archive} can't be made: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    if archive.exists():
        quiet = "-Xlog:disable -Xlog:all=error"  # of an archive that is not for this class path
        options = f'-XX:TieredStopAtLevel=1 "-XX:SharedArchiveFile={archive}" -Xshare:auto {quiet}'
        os.environ[_OPTIONS] = options


def _archive() -> Path:
    """Return the archive's path: one for each Java and each PySpark."""
    import pyspark

    java = Path(find_java()).resolve()
    parts = [
        str(java),
        str(java.stat().st_mtime_ns),
        version("pyspark"),
        str(Path(pyspark.__file__)),
    ]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mainstem-testkit" / f"{name}.jsa"


def _once(archive: Path) -> None:
    """Make the archive, or wait for another process that does."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)


def _make(archive: Path) -> None:
    """Run a small document with a Java that writes the archive when it ends."""
    with tempfile.TemporaryDirectory(prefix="mainstem-testkit-") as place:
        folder = Path(place)
        (folder / "in").mkdir()
        (folder / "in" / "one.jsonl").write_text('{"n": 1}\n')
        (folder / "small.yaml").write_text(_DOCUMENT)
        written = folder / "classes.jsa"
        making = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={written}"
        process = subprocess.Popen(
            [sys.executable, "-m", "mainstem", "run", "small.yaml"],
            cwd=folder,
            env={**os.environ, _OPTIONS: making},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(_PATIENCE)
            until = time.monotonic() + _PATIENCE
            while living(process.pid):  # Java outlives Python to write
                if time.monotonic() > until:
                    raise TimeoutError("Java does not end")
                time.sleep(0.05)
        finally:
            for pid in living(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()
        aside = archive.with_suffix(".new")
        shutil.copyfile(written, aside)
        aside.replace(archive)


_DOCUMENT = """
pipeline: small
checkpoint: ./checkpoints
trigger: {available_now: true}
spark: {master: "local[2]", conf: {spark.ui.enabled: false, spark.sql.shuffle.partitions: 1}}
sources:
  lines: {use: files, with: {path: ./in, format: message}}
operators:
  row: {use: decode, from: lines, with: {format: json, schema: n INT}}
sinks:
  out: {use: files, from: row, with: {path: ./out, format: parquet}}
  bad: {use: files, from: row.rejected, with: {path: ./bad, format: jsonlines}}
"""
