"""Java starts from an archive of Spark's classes: made once, and used by every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mainstem.run import class_archive


def command(*args: str, folder: Path, cache: Path) -> str:
    """Run a command of ours with a cache of its own; return what it prints."""
    env = {k: v for k, v in os.environ.items() if k != "JDK_JAVA_OPTIONS"}
    done = subprocess.run(
        [Path(sys.executable).parent / "mainstem", *args],
        cwd=folder,
        env={**env, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.in_turn
def test_a_run_takes_its_classes_from_the_archive(pipeline, tmp_path, monkeypatch):
    """Pass: most of Spark's classes come from the archive, which is that of this Java; archives whose PySpark is gone are
    removed; one that is cut off is of no use and does no harm."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    archive = class_archive.place()
    archive.parent.mkdir(parents=True)
    for gone in ("old.json", "old.jsa"):
        (archive.parent / gone).write_text('{"bytes": 3, "pyspark": "/nowhere/pyspark"}')
    assert str(archive) in command("class-archive", folder=pipeline.folder, cache=cache)
    assert sorted(each.suffix for each in archive.parent.iterdir()) == [".jsa", ".json", ".lock"]
    loaded = tmp_path / "loaded"
    pipeline.document(
        spark={"conf": {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"}},
        sources={"lines": {"use": "files", "with": {"path": "./in", "format": "text"}}},
        sinks={"out": pipeline.sink("out", "lines")},
    )
    pipeline.feed("a", ["one"])

    def from_archive() -> float:
        command("run", str(pipeline.file), folder=pipeline.folder, cache=cache)
        lines = [line for line in loaded.read_text().splitlines() if "org.apache.spark" in line]
        return sum("shared objects file (top)" in line for line in lines) / len(lines)

    assert from_archive() > 0.5
    assert [row["value"] for row in pipeline.rows("out")] == ["one"]
    archive.write_bytes(archive.read_bytes()[:1_000_000])
    pipeline.feed("b", ["two"])
    assert from_archive() == 0
    assert sorted(row["value"] for row in pipeline.rows("out")) == ["one", "two"]
