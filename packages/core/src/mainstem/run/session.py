"""Makes the Spark session that a plan needs."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from mainstem.contracts.components import Needs
from mainstem.document.scrubber import Scrubber
from mainstem.durable import private_folder
from mainstem.errors import DocumentError, MachineError, Problem
from mainstem.paths import made_user_folder, user_folder
from mainstem.plan.model import Plan
from mainstem.run import class_archive, jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = 17
_INSTALL = (
    f"Install Java {OLDEST} or newer (Debian: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME to one."
)


def find_java() -> str:
    """Return the path of `java`, from JAVA_HOME or PATH.

    Raises:
        MachineError: there is none, it does not start, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")  # noqa: PTH118
    where = f"JAVA_HOME={home}" if home else "PATH"
    if not path or not os.path.exists(path):  # noqa: PTH110
        raise MachineError(f"Spark needs Java, and {where} has none. {_INSTALL}")
    try:
        found = subprocess.run(  # noqa: S603
            [path, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{path} does not start: {error}. {_INSTALL}") from None
    match = re.search(r'version "(\d+)', found.stderr + found.stdout)
    version = int(match.group(1)) if match else 0
    if version < OLDEST:
        raise MachineError(f"{path} is Java {version or 'unknown'}, too old for Spark. {_INSTALL}")
    return path


#: The longest path that Spark can put its sockets in: theirs have 108 characters at most.
_LONGEST = 64


def scratch_of(plan: Plan, process: int) -> Path:
    """Return the folder of a process that runs a plan; it need not be there."""
    name = hashlib.sha256(str(plan.checkpoint.absolute()).encode()).hexdigest()[:12]
    return user_folder() / f"{name}-{process}"


def own_scratch(plan: Plan) -> Path | None:
    """Return this process's folder, made; remove what others that ran the plan have left.

    None where it can't be made, is somebody else's, or the path would be too long: Spark then takes the
    system's folder, and leaves there what it leaves.
    """
    folder = scratch_of(plan, os.getpid())
    if len(str(folder)) > _LONGEST:
        return None
    if made_user_folder() is None:
        return None
    try:
        private_folder(folder)
    except OSError:
        return None
    beginning = folder.name.partition("-")[0]
    for left in folder.parent.glob(f"{beginning}-*"):
        if not Path("/proc", left.name.partition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return folder


_STREAMING = "spark.sql.streaming"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def settings(plan: Plan) -> dict[str, str]:
    """Return every setting of the plan's session; the document's own win.

    Raises:
        DocumentError: two plugins want different values of one setting, and the document has none.
    """
    document = plan.document.spark
    own = {key: _text(value) for key, value in document.conf.items()}
    conf = {
        "spark.master": document.master,
        "spark.app.name": plan.pipeline,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        # How rows go to Python's workers and come from there: faster than by TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        # Whose workers are ready for the next task sooner.
        "spark.python.daemon.module": "mainstem.run.worker_daemon",
        # Where in Python a column was made: looked up at each call, of which a batch makes hundreds.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # It drops from a running plan what turned out empty, with the counts of the rows that came there.
        "spark.sql.adaptive.optimizer.excludedRules": (
            "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
        ),
        f"{_STREAMING}.queryEvolution.enableSourceEvolution": "true",
        f"{_STREAMING}.stopTimeout": "60s",
        f"{_STREAMING}.unsupportedOperationCheck": "false",  # made by `frames.check_streaming`
    }
    if plan.local:
        # One state store for each core; fixed in the checkpoint by the first batch.
        conf["spark.sql.shuffle.partitions"] = str(_cores(document.master))
    if "://" not in str(plan.checkpoint):
        # Renames are atomic on a mounted file system; half the time of Spark's careful default.
        conf[f"{_STREAMING}.checkpointFileManagerClass"] = (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        )
    conf |= plan.state_store.conf()
    wanted: dict[str, tuple[str, str]] = {}
    packages: list[str] = []
    files: list[str] = []
    for name, needs in _needs(plan):
        packages += needs.packages
        files += needs.jars
        for key, value in needs.conf.items():
            other, before = wanted.setdefault(key, (name, value))
            if before != value and key not in own:
                message = f"{other} needs {key}={before}, and {name} needs {key}={value}"
                hint = "Choose one under `spark.conf`."
                raise DocumentError([Problem(message, "spark.conf", plan.file, hint=hint)])
    conf |= {key: value for key, (_, value) in wanted.items()}
    for key, values in ((jars.PACKAGES, packages), (jars.PATHS, files)):
        if values:
            mine = own.pop(key, "")
            conf[key] = ",".join(dict.fromkeys([*filter(None, mine.split(",")), *values]))
    return conf | own


def _needs(plan: Plan) -> list[tuple[str, Needs]]:
    found = [(node.name, node.component.needs()) for node in plan.nodes.values()]
    return [*found, (plan.state_word, plan.state_store.needs())]


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].split(",")[0]
    return int(inside) if inside.isdigit() else (os.cpu_count() or 1 if inside == "*" else 1)


def start(plan: Plan, *, debug: bool = False, scratch: Path | None = None) -> SparkSession:
    """Return the session, made for the plan or the one that is already there.

    Spark's own log goes to standard error with `debug`, and is otherwise kept back: its last lines
    are shown if the session can't be made.

    Args:
        scratch: where a new Java process keeps what it needs while it lasts; the system's folder for
            such things when left out.

    Raises:
        MachineError: Java or a jar can't be had, or Spark does not start.
    """
    wanted = settings(plan)
    jars.check_files(wanted)
    # Spark's own setting for this is read by spark-submit alone.
    os.environ.setdefault("PYSPARK_PYTHON", wanted.get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark import SparkContext, __version__
    from pyspark.sql import SparkSession

    if Version(__version__).release >= (4, 3):  # before, it is there and may not be used
        wanted.setdefault(f"{_STREAMING}.join.stateFormatVersion", "4")
    before = SparkContext._active_spark_context
    if before is None:
        find_java()
        own = wanted.get(_JAVA_OPTIONS, "")
        quick = class_archive.options(own)
        kept = "" if scratch is None else f'"-Djava.io.tmpdir={scratch}"'
        if given := " ".join(filter(None, (quick, own, kept))):
            wanted[_JAVA_OPTIONS] = given
    # PySpark's own report of each error: a second telling, past our scrubber.
    for told in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(told).setLevel(logging.CRITICAL)
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    log = _JavaLog(plan.scrubber, show=debug)
    try:
        with log:
            session = builder.getOrCreate()
    except Exception as error:
        if missing := jars.unresolved([*log.last, str(error)]):
            raise missing from error
        lines = "\n".join(log.last) or str(error)
        raise MachineError(plan.scrubber.clean(f"Spark does not start:\n{lines}")) from error
    if before is not None:
        jars.check_present(wanted, dict(session.sparkContext.getConf().getAll()))
    session.sparkContext.setLogLevel("WARN" if debug else "OFF")
    return session


class _JavaLog:
    """While it is entered, a process started from here has its standard error read by us."""

    def __init__(self, scrubber: Scrubber, *, show: bool) -> None:
        self.last: deque[str] = deque(maxlen=40)
        self._scrubber = scrubber
        self._show = show

    def __enter__(self) -> None:
        read, write = os.pipe()
        sys.stderr.flush()
        self._saved = os.dup(2)
        os.dup2(write, 2)
        os.close(write)
        threading.Thread(target=self._follow, args=(read,), name="java-log", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
        os.dup2(self._saved, 2)
        os.close(self._saved)

    def _follow(self, read: int) -> None:
        with os.fdopen(read, errors="replace") as lines:
            for line in lines:
                text = self._scrubber.clean(line.rstrip())
                self.last.append(text)
                if self._show:
                    print(text, file=sys.stderr)
