"""Helper processes: started, heard, started again, and ended; their secrets stay in the pipe."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mainstem import HelperProcess, PipelineError, Supervised
from mainstem.document.scrubber import Scrubber
from mainstem.observation.reporter import Silent
from mainstem.run import helpers as helpers_module
from mainstem.run.helpers import Helpers

SECRET = "s3cret-of-a-helper"

TELLING = """
import json, os, sys, time
def tell(**facts):
    print(json.dumps(facts), flush=True)
given = sys.stdin.readline()
def until_the_end():
    while sys.stdin.read(1):
        pass
"""


class Told(Silent):
    """Keeps what helpers told."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []

    def helper(self, facts: Any) -> None:
        self.facts.append(dict(facts))

    def states(self) -> list[str]:
        return [f["state"] for f in self.facts if "state" in f]


class Component(Supervised):
    """Needs processes that do what scripts say."""

    def __init__(self, *scripts: str, env: dict[str, str] | None = None) -> None:
        self.scripts = scripts
        self.env = env or {}
        self.home: Path | None = None

    def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
        self.home = home
        assert home.is_dir()
        return [
            HelperProcess(
                f"{node}-{n}",
                (sys.executable, "-c", TELLING + script),
                self.env,
                f"given {SECRET}\n".encode(),
            )
            for n, script in enumerate(self.scripts)
        ]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers_module, "_FIRST_PAUSE", 0.02)


class World:
    """A plan of nodes with components, and what their helpers told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = Told()
        self.scrubber = Scrubber()

    def helpers(self, only: Sequence[str] | None = None, **components: Any) -> Helpers:
        plan = SimpleNamespace(
            pipeline="p",
            nodes={name: SimpleNamespace(component=c) for name, c in components.items()},
            scrubber=self.scrubber,
            home=lambda name: self.folder / "nodes" / name,
        )
        return Helpers(plan, self.told, only)  # type: ignore[arg-type]

    def watch(self, helpers: Helpers, until: Callable[[], Any], seconds: float = 30) -> None:
        """Watch until something holds."""
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, self.told.facts
            helpers.watch()
            time.sleep(0.01)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    before = set(threading.enumerate())
    yield World(tmp_path)
    assert not {t for t in threading.enumerate() if t.is_alive()} - before, "threads are left"


def pids(world: World) -> list[int]:
    return [f["pid"] for f in world.told.facts if "pid" in f]


def living(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nodes_without_helpers_have_none(world: World) -> None:
    with world.helpers(a=object()) as helpers:
        assert len(helpers) == 0
        helpers.watch()
        helpers.wait_until_ready(threading.Event())


def test_what_they_tell_is_passed_on(world: World) -> None:
    component = Component(
        "tell(state='running', rows=1); tell(state='running', rows=1); print('no JSON', flush=True)\n"
        "print('[1]', flush=True); tell(state='running', rows=2, server='here'); until_the_end()"
    )
    with world.helpers(a=component, b=object()) as helpers:
        assert len(helpers) == 1
        world.watch(helpers, lambda: len(world.told.facts) == 2)
    assert world.told.facts == [
        {"event": "helper", "pipeline": "p", "node": "a", "helper": "a-0", "state": "running", "rows": 1},
        {"event": "helper", "pipeline": "p", "node": "a", "helper": "a-0", "state": "running", "rows": 2, "server": "here"},
    ]  # fmt: skip
    assert component.home == world.folder / "nodes" / "a"


def test_only_those_of_chosen_nodes_are_started(world: World) -> None:
    script = "tell(state='running'); until_the_end()"
    components = {name: Component(script, script) for name in "abc"}
    with world.helpers(["b"], **components) as helpers:
        assert len(helpers) == 2
        world.watch(helpers, lambda: len(world.told.facts) == 2)
    assert {f["helper"] for f in world.told.facts} == {"b-0", "b-1"}
    assert components["a"].home is None


def test_secrets_go_through_the_pipe_alone(world: World) -> None:
    script = (
        "tell(pid=os.getpid(), given=len(given), env=os.environ['GIVEN'], path='PATH' in os.environ)\n"
        "until_the_end()"
    )
    component = Component(script, env={"GIVEN": "by env"})
    assert SECRET not in repr(component.processes("a", world.folder))
    with world.helpers(a=component) as helpers:
        world.watch(helpers, lambda: world.told.facts)
        (facts,) = world.told.facts
        shown = Path(f"/proc/{facts['pid']}")
        assert SECRET.encode() not in (shown / "cmdline").read_bytes()
        assert SECRET.encode() not in (shown / "environ").read_bytes()
    assert facts["given"] == len(f"given {SECRET}\n")
    assert (facts["env"], facts["path"]) == ("by env", True)


def test_one_that_crashes_is_started_again_and_its_last_words_are_shown(world: World) -> None:
    script = (
        "file = os.environ['LIVES']; lives = len(open(file, 'a+').read() or open(file).read())\n"
        "open(file, 'a').write('x')\n"
        "tell(state='running', life=lives)\n"
        "if lives < 2:\n"
        "    print('line one', file=sys.stderr); raise ValueError(f'crash {lives}')\n"
        "until_the_end()"
    )
    component = Component(script, env={"LIVES": str(world.folder / "lives")})
    with world.helpers(a=component) as helpers:
        world.watch(helpers, lambda: any(f.get("life") == 2 for f in world.told.facts))
    assert world.told.states() == ["running", "restarting", "running", "restarting", "running"]
    whys = [f["why"] for f in world.told.facts if "why" in f]
    assert whys == [f"ended with 1: ValueError: crash {n}" for n in range(2)]


def test_one_that_is_killed_is_started_again(world: World) -> None:
    with world.helpers(a=Component("tell(pid=os.getpid()); until_the_end()")) as helpers:
        world.watch(helpers, lambda: pids(world))
        os.kill(pids(world)[0], 9)
        world.watch(helpers, lambda: len(pids(world)) == 2)
    assert [f["why"] for f in world.told.facts if "why" in f] == ["was killed by signal 9"]


def test_one_that_ends_while_it_is_wanted_is_started_again(world: World) -> None:
    with world.helpers(a=Component("")) as helpers:
        world.watch(helpers, lambda: world.told.states() == ["restarting"] * 2)
    assert world.told.facts[0]["why"] == "ended with 0"


def test_what_a_new_life_tells_is_news_though_the_last_one_told_the_same(world: World) -> None:
    """Else it would be shown as `restarting` for ever."""
    script = "tell(state='running'); time.sleep(0.2); os.kill(os.getpid(), 9)"
    with world.helpers(a=Component(script)) as helpers:
        world.watch(helpers, lambda: world.told.states().count("restarting") == 2)
    assert world.told.states()[:4] == ["running", "restarting"] * 2


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, ...]]:
    """What pauses are asked for; none of them is long."""
    asked: list[tuple[float, ...]] = []

    def pause_after(*given: float) -> float:
        asked.append(given)
        return 0.02

    monkeypatch.setattr(helpers_module, "pause_after", pause_after)
    return asked


def test_pauses_grow_up_to_a_longest_one(world: World, pauses: list[tuple[float, ...]]) -> None:
    with world.helpers(a=Component("sys.exit(3)")) as helpers:
        world.watch(helpers, lambda: world.told.states().count("restarting") == 4)
    longest = helpers_module._LONGEST_PAUSE
    assert pauses[:4] == [(n, helpers_module._FIRST_PAUSE, longest) for n in range(1, 5)]


def test_one_that_lasted_begins_again_with_short_pauses(
    world: World, monkeypatch: pytest.MonkeyPatch, pauses: list[tuple[float, ...]]
) -> None:
    monkeypatch.setattr(helpers_module, "_LASTED", 0.0)
    with world.helpers(a=Component("sys.exit(3)")) as helpers:
        world.watch(helpers, lambda: world.told.states().count("restarting") == 4)
    assert {tries for tries, *_ in pauses} == {1}


@pytest.mark.parametrize("ends", ["sys.exit(1)", "until_the_end()"])
def test_one_that_no_restart_mends_ends_the_run_with_its_cause(world: World, ends: str) -> None:
    world.scrubber.hide(SECRET, "${env:SECRET}")
    script = f"tell(state='failed', why='no login as ' + given.split()[1]); {ends}"
    with (
        pytest.raises(PipelineError) as failed,
        world.helpers(a=Component("until_the_end()"), b=Component(script)) as helpers,
    ):
        world.watch(helpers, lambda: False)
    assert str(failed.value) == "b: no login as ${env:SECRET}"
    assert failed.value.node == "b"


def test_secrets_are_scrubbed_from_all_that_is_shown(world: World) -> None:
    world.scrubber.hide(SECRET, "${env:SECRET}")
    script = "tell(state='waiting', why=given.strip()); print(given, file=sys.stderr); sys.exit(1)"
    with world.helpers(a=Component(script)) as helpers:
        world.watch(helpers, lambda: "restarting" in world.told.states())
    assert [f["why"] for f in world.told.facts] == [
        "given ${env:SECRET}",
        "ended with 1: given ${env:SECRET}",
    ]


def test_a_bounded_run_waits_until_all_are_ready(world: World) -> None:
    flag = world.folder / "flag"
    late = (
        f"tell(state='running', ready=False)\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)\n"
        "tell(state='running', ready=True); until_the_end()"
    )
    helpers = world.helpers(a=Component("tell(ready=True); until_the_end()", late))
    done = threading.Event()

    def wait() -> None:
        helpers.wait_until_ready(threading.Event())
        done.set()

    with helpers:
        thread = threading.Thread(target=wait)
        thread.start()
        end = time.monotonic() + 30
        while len(world.told.facts) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert not done.is_set()
        flag.touch()
        thread.join(30)
        assert done.is_set()
    assert [f["ready"] for f in world.told.facts if f["helper"] == "a-1"] == [False, True]


def test_waiting_ends_when_it_is_told_to(world: World) -> None:
    with world.helpers(a=Component("until_the_end()")) as helpers:
        stop = threading.Event()
        stop.set()
        helpers.wait_until_ready(stop)


def test_waiting_ends_when_one_has_failed(world: World) -> None:
    script = "tell(state='failed', why='no such queue'); sys.exit(1)"
    with (
        pytest.raises(PipelineError, match="a: no such queue"),
        world.helpers(a=Component(script)) as helpers,
    ):
        helpers.wait_until_ready(threading.Event())


def test_they_finish_what_they_have_in_hand(world: World) -> None:
    """All are told at once, and waited for."""
    script = "tell(pid=os.getpid()); until_the_end(); time.sleep(0.2); open(os.environ['DONE'] + str(os.getpid()), 'w')"
    component = Component(script, script, env={"DONE": str(world.folder / "done-")})
    with world.helpers(a=component) as helpers:
        world.watch(helpers, lambda: len(pids(world)) == 2)
    assert all((world.folder / f"done-{pid}").exists() for pid in pids(world))
    assert not any(map(living, pids(world)))


def test_one_that_does_not_end_is_killed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers_module, "_ENDING", 0.2)
    with world.helpers(a=Component("tell(pid=os.getpid()); time.sleep(600)")) as helpers:
        world.watch(helpers, lambda: pids(world))
    assert not living(pids(world)[0])


def test_they_end_when_the_run_breaks(world: World) -> None:
    helpers = world.helpers(a=Component("tell(pid=os.getpid()); until_the_end()"))

    def run() -> None:
        with helpers:
            world.watch(helpers, lambda: pids(world))
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert not living(pids(world)[0])


def test_they_end_when_one_of_them_cannot_be_started(world: World) -> None:
    class Missing(Component):
        def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
            return [HelperProcess("none", ("/no/such/program",))]

    file = world.folder / "pid"
    first = Component("open(os.environ['FILE'], 'w').write(str(os.getpid())); until_the_end()")
    first.env = {"FILE": str(file)}
    with pytest.raises(OSError, match="no/such/program"), world.helpers(a=first, b=Missing()):
        pass
    assert not file.exists() or not living(int(file.read_text()))


def test_one_that_never_reads_is_no_trouble(world: World) -> None:
    class Deaf(Component):
        def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
            (process,) = super().processes(node, home)
            return [HelperProcess("deaf", ("true",), stdin=process.stdin * 5000)]

    with world.helpers(a=Deaf("")) as helpers:
        world.watch(helpers, lambda: "restarting" in world.told.states())


@pytest.mark.in_turn
def test_what_a_helper_left_behind_holds_up_nobody(world: World) -> None:
    """A process that it started has its output, and lives on."""
    script = (
        "import subprocess\n"
        "left = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL)\n"
        "tell(left=left.pid); until_the_end()"
    )
    threads = []
    with world.helpers(a=Component(script)) as helpers:
        world.watch(helpers, lambda: world.told.facts)
        threads = helpers._helpers[0]._readers
        ended = threading.Thread(target=helpers.end, daemon=True)
        ended.start()
        ended.join(20)
        stuck = ended.is_alive()
        os.kill(world.told.facts[0]["left"], 9)
        assert not stuck
    for thread in threads:
        thread.join(30)


def test_a_helper_gets_of_the_environment_what_it_needs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: paths and what it asks for by name; no secret that the document took from a variable."""
    # Some begin as the names of what any program needs do.
    secrets = {
        "CANARY_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "USER_PASSWORD",
        "TEMPORAL_API_KEY",
        "LANGFUSE_KEY",
    }
    for name in (*secrets, "VENDOR_REGION"):
        monkeypatch.setenv(name, SECRET)
    script = "tell(state='running', names=sorted(os.environ))\nuntil_the_end()"

    class Asking(Component):
        def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
            return [replace(each, inherits=("VENDOR_",)) for each in super().processes(node, home)]

    with world.helpers(asking=Asking(script), plain=Component(script)) as helpers:
        world.watch(helpers, lambda: sum("names" in f for f in world.told.facts) == 2)
    found = {f["helper"]: set(f["names"]) for f in world.told.facts if "names" in f}
    for names in found.values():
        assert "PATH" in names
        assert not names & secrets
    assert "VENDOR_REGION" in found["asking-0"]
    assert "VENDOR_REGION" not in found["plain-0"]
