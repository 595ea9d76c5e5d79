"""Java starts from an archive of Spark's classes: made once, and used by every run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mainstem.run import class_archive
from mainstem.run.archiving import make


def command(*args: str, folder: Path, archives: Path) -> str:
    """Run a command of ours with archives of its own; return what it prints."""
    env = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    done = subprocess.run(
        [Path(sys.executable).parent / "mainstem", *args],
        cwd=folder,
        env={**env, "MAINSTEM_CLASS_ARCHIVES": str(archives)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.in_turn
def test_a_run_takes_its_classes_from_the_archive(pipeline, tmp_path, monkeypatch):
    """Pass: most of Spark's classes come from the archive; archives of Javas and PySparks that are gone, and what a killed
    make has left, are removed; one that is cut off does no harm, and is made again by who makes what is missing."""
    archives = tmp_path / "some archives"
    archives.mkdir()
    monkeypatch.setenv("MAINSTEM_CLASS_ARCHIVES", str(archives))
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    here = class_archive.of()
    for name, of in {
        "spark": {**here, "pyspark": "/nowhere/pyspark"},
        "java": {**here, "made": 1},
        "odd": [],
    }.items():
        (archives / f"{name}.json").write_text(json.dumps({"bytes": 3, "of": of}))
        (archives / f"{name}.jsa").write_text("old")
    (archives / "left.new").write_text("half")
    archive = class_archive.place()
    assert str(archive) in command("class-archive", folder=pipeline.folder, archives=archives)
    names = {f"{archive.stem}.jsa", f"{archive.stem}.json", "lock"}
    assert {each.name for each in archives.iterdir()} == names
    loaded = tmp_path / "loaded"
    pipeline.document(
        spark={"conf": {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"}},
        sources={"lines": {"use": "files", "with": {"path": "./in", "format": "text"}}},
        sinks={"out": pipeline.sink("out", "lines")},
    )
    pipeline.feed("a", ["one"])

    def from_archive() -> float:
        command("run", str(pipeline.file), folder=pipeline.folder, archives=archives)
        lines = [line for line in loaded.read_text().splitlines() if "org.apache.spark" in line]
        return sum("shared objects file (top)" in line for line in lines) / len(lines)

    assert from_archive() > 0.5
    assert [row["value"] for row in pipeline.rows("out")] == ["one"]
    before = archive.stat().st_mtime_ns
    assert make(anew=False) == archive
    assert archive.stat().st_mtime_ns == before
    archive.write_bytes(archive.read_bytes()[:1_000_000])
    pipeline.feed("b", ["two"])
    assert from_archive() == 0
    assert sorted(row["value"] for row in pipeline.rows("out")) == ["one", "two"]
    assert make(anew=False) == archive
    assert class_archive.options() != ""
