"""One document, on a Spark cluster."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from totals_document import changed, minute, totals, write

ROOT = Path(__file__).parent.parent
#: Few state stores, for a small machine; and the executors find the driver on the same host.
CONF = {
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": False,
    "spark.executor.memory": "512m",
}

WHERE = """\
from pyspark.sql import functions as F


def where(frame):
    def prefix(key):
        import sys
        import mainstem
        return f"{sys.prefix} {mainstem.__name__}"

    return frame.select("k", F.udf(prefix)("k").alias("prefix"))
"""


def fed(pipeline, master: str, **parts) -> None:
    write(pipeline, changed(spark={"master": master, "conf": CONF}, **parts), flush=True)
    pipeline.feed("1.jsonl", minute(1, 2) + minute(2, 3))
    pipeline.feed("2.jsonl", minute(3, 4))


@pytest.mark.in_turn
def test_a_document_runs_on_executors_of_their_own(pipeline):
    """Pass: two executors in processes of their own; totals as on a local master."""
    fed(pipeline, "local-cluster[2,1,1024]")
    result = pipeline.command()
    assert result.returncode == 0, result.stderr
    assert [n for *_, n in totals(pipeline)] == [2, 3, 4]


@pytest.mark.in_turn
def test_workers_without_the_core_are_told(pipeline):
    """Pass: whose Python has no package of ours; exit 4, with what to install, and no trace of Java's."""
    bare = pipeline.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    fed(pipeline, "local-cluster[1,1,1024]")
    result = pipeline.command(PYSPARK_PYTHON=str(bare / "bin/python"))
    assert result.returncode == 4, result.stderr
    assert "has no package `mainstem`. Install it there" in result.stderr
    assert "Traceback" not in result.stderr


#: What the workers have, beside what that needs of this repository.
PLUGINS = (
    "mainstem-broker-amqp",
    "mainstem-database-sql",
    "mainstem-fault-tolerance",
    "mainstem-operators-joins",
    "mainstem-operators-windows",
)


def needed() -> list[str]:
    """Return the distributions of this repository that the plugins are, and need."""
    found: dict[str, None] = {}
    left = [*PLUGINS]
    while left:
        name = left.pop()
        if name not in found:
            found[name] = None
            asked = (Requirement(text) for text in requires(name) or ())
            left += [r.name for r in asked if r.name.startswith("mainstem") and not r.marker]
    return sorted(found)


class Cluster:
    """A standalone master and two workers.

    Attributes:
        url: the master's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._master = _spark_class(folder, "one", "master.Master", "--port", "0")
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self.url = ""

    def begin(self, hidden: str) -> None:
        self.url = _line(self._master, r"Starting Spark master at (\S+)")
        for name in ("one", "two"):
            self.work(name, self._folder / hidden if hidden and name == "two" else None)

    def work(self, name: str, hidden: Path | None = None) -> None:
        """Start a worker and wait until the master knows it."""
        folder = str(self._folder / f"{name}-work")
        more = ["--cores", "1", "--memory", "1g", "--work-dir", folder, self.url]
        worker = _spark_class(self._folder, name, "worker.Worker", *more, hidden=hidden)
        self._workers[name] = worker
        _line(worker, r"Successfully registered with master")

    def kill(self, name: str) -> None:
        """Kill a worker as `kill -9` does; its executors end when they see that it is gone."""
        self._workers[name].kill()
        self._workers.pop(name).communicate()

    def executors(self) -> list[int]:
        """Return the processes of the executors."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                line = file.read_bytes().decode(errors="replace")
                if "CoarseGrainedExecutorBackend" in line and str(self._folder) in line:
                    found.append(int(file.parent.name))
        return found

    def end(self) -> None:
        for process in (*self._workers.values(), self._master):
            process.terminate()
            process.communicate()


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster, each of whose workers has a Python environment made from the wheels.

    A parameter is the name of a folder below `tmp_path` that the second worker does not see.
    """
    hidden = getattr(request, "param", "")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert uv, "uv is needed to make the workers' environments"
    for package in needed():
        command = [uv, "build", "-q", "--wheel", "--package", package, "--out-dir", tmp_path, ROOT]
        subprocess.run(command, check=True)
    wheels = sorted(tmp_path.glob("*.whl"))
    for name in ("one", "two"):
        at = tmp_path / name
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, at], check=True)
        install = [uv, "pip", "install", "-q", "--link-mode", "symlink", "--python"]
        subprocess.run([*install, at / "bin/python", *wheels], check=True)
    made = Cluster(tmp_path)
    try:
        made.begin(hidden)
        yield made
    finally:
        made.end()


def _spark_class(
    folder: Path, env: str, name: str, *arguments: str, hidden: Path | None = None
) -> subprocess.Popen[str]:
    """Start one of Spark's own processes; `hidden` is an empty folder to it, as on another machine."""
    binaries = folder / env / "bin"
    found = subprocess.run(
        [binaries / "python", "-c", "import pyspark; print(pyspark.__path__[0])"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    home = found.stdout.strip()
    elsewhere: list[str] = []
    if hidden is not None:
        hidden.mkdir(exist_ok=True)
        mount = f'mount -t tmpfs none "{hidden}" && exec "$@"'
        elsewhere = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    return subprocess.Popen(
        [*elsewhere, f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}",
         "--host", "127.0.0.1", "--webui-port", "0", *arguments],
        env={**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "SPARK_HOME": home},
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def _line(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        found = re.search(pattern, line)
        if found:
            return found.group(found.lastindex or 0)
    raise AssertionError("".join(seen))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_document_runs_on_a_standalone_master_with_two_workers(pipeline, cluster):
    """Pass: totals as on a local master; code on the executors ran in the workers' own Pythons."""
    (pipeline.folder / "where.py").write_text(WHERE)
    fed(
        pipeline,
        cluster.url,
        operators__where={
            "use": "python",
            "from": "row",
            "with": {"call": "where:where", "schema": "k STRING, prefix STRING"},
        },
        sinks__prefixes=pipeline.sink("prefixes", "where"),
    )
    result = pipeline.command(PYSPARK_PYTHON="python3")
    assert result.returncode == 0, result.stderr
    assert [n for *_, n in totals(pipeline)] == [2, 3, 4]
    prefixes = {row["prefix"] for row in pipeline.rows("prefixes")}
    assert prefixes
    assert {Path(prefix.split()[0]).name for prefix in prefixes} <= {"one", "two"}


def submitted(pipeline, master: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the document by `spark-submit`, as the page on clusters says."""
    program = "import pyspark, mainstem.__main__ as m; print(pyspark.__path__[0], m.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    home, main = said.stdout.split()
    command = [f"{home}/bin/spark-submit", "--master", master, main, "run", "pipeline.yaml"]
    return subprocess.run(
        [*command, "--set", f"spark.master={master}"],
        cwd=pipeline.folder, capture_output=True, text=True, check=False,
        env={**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable, **env},
    )  # fmt: skip


@pytest.mark.in_turn
def test_a_document_is_submitted(pipeline):
    """Pass: totals as by `mainstem run`; what is wrong has the same exit code."""
    fed(pipeline, "local[2]")
    result = submitted(pipeline, "local[2]")
    assert result.returncode == 0, result.stderr
    assert [n for *_, n in totals(pipeline)] == [2, 3, 4]
    (pipeline.folder / "pipeline.yaml").write_text("pipeline: p\nsource: {}\n")
    assert submitted(pipeline, "local[2]").returncode == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_document_is_submitted_to_a_standalone_master(pipeline, cluster):
    """Pass: totals as on a local master, with the workers' own Pythons."""
    fed(pipeline, cluster.url)
    found = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = submitted(pipeline, cluster.url, PYSPARK_PYTHON="python3", PATH=found)
    assert result.returncode == 0, result.stderr
    assert [n for *_, n in totals(pipeline)] == [2, 3, 4]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: hiding a folder from a worker needs root"
)
@pytest.mark.parametrize("cluster", ["own"], indirect=True)
def test_a_checkpoint_that_a_worker_does_not_see_is_refused(pipeline, cluster):
    """Pass: exit 4 with its name before any query starts; nothing of the probe is left."""
    fed(pipeline, cluster.url, checkpoint=str(pipeline.folder / "own"))
    result = pipeline.command(PYSPARK_PYTHON="python3")
    assert result.returncode == 4, result.stderr
    assert "checkpoint: " in result.stderr
    assert "is not shared" in result.stderr
    assert not list((pipeline.folder / "out").glob("*"))
    assert not (pipeline.folder / "own/test/queries").exists()
    assert not list(pipeline.folder.rglob(".probe-*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_queue_a_join_and_a_database_stay_exact(cluster, tmp_path, rabbitmq, postgres):
    """Pass: while a queue is read, joined with a table and written into PostgreSQL, executors are killed, a
    worker (and started again), and the driver: each event is there once, with its version."""
    from campaign.paths import Way
    from campaign.places import Places
    from campaign.rounds import play

    def executor(job, chance):
        for pid in cluster.executors()[:1]:
            os.kill(pid, signal.SIGKILL)

    def worker(job, chance):
        name = chance.choice(["one", "two"])
        cluster.kill(name)
        cluster.work(name)

    beside = {"executor killed": executor, "worker lost": worker}
    way = Way("amqp-classic", "stream_table", "sql, transactional")
    # The driver plans sources in a Python of its own, found by the same name.
    found = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Places(tmp_path / "servers") as places:
        (came,) = play(
            [way],
            5,
            places,
            tmp_path / "round",
            seconds=60,
            env={"PYSPARK_PYTHON": "python3", "PATH": found},
            only=["driver killed", *beside],
            spark={"master": cluster.url, "conf": CONF},
            beside=beside,
        )
    assert came.claimed == "exactly-once"
    assert came.broken == [], came
    assert set(beside) <= set(came.faults), "not all of it happened: choose another seed"
