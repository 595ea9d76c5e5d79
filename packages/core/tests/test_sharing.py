"""What must be shared is looked for by executors: here by a stand-in that sees another disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mainstem import MachineError
from mainstem.plan.build import make_plan
from mainstem.run.shared_storage import check_shared


class Executors:
    """Runs a job in this process, after `before` has changed what the disk looks like."""

    defaultParallelism = 2  # noqa: N815

    def __init__(self, before: Any = lambda: None) -> None:
        self._before = before

    def parallelize(self, items: Any, tasks: int) -> Executors:
        self._items = list(items)
        assert len(self._items) == tasks
        return self

    def flatMap(self, look: Any) -> Executors:  # noqa: N802
        self._look = look
        return self

    def collect(self) -> list[Any]:
        self._before()
        return [found for item in self._items for found in self._look(item)]


def plan(folder: Path, master: str = "spark://host:7077") -> Any:
    return make_plan(
        {
            "pipeline": "p",
            "checkpoint": str(folder / "checkpoints"),
            "spark": {"master": master},
            "sources": {
                "lines": {
                    "use": "files",
                    "with": {"path": str(folder / "in/*/x"), "format": "text"},
                }
            },
            "sinks": {
                "out": {
                    "use": "files",
                    "from": "lines",
                    "with": {"path": str(folder / "out"), "format": "jsonlines"},
                }
            },
        }
    )


def probes(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".probe-*"))


def test_a_path_that_all_see_is_let_through(tmp_path):
    """Pass: the executors found a probe for the checkpoint and each path, and none is left."""
    seen: list[Path] = []
    executors = Executors(lambda: seen.extend(probes(tmp_path)))
    check_shared(plan(tmp_path), SimpleNamespace(sparkContext=executors))  # type: ignore[arg-type]
    places = [probe.parent.relative_to(tmp_path) for probe in seen]
    assert sorted(map(str, places)) == ["checkpoints/p", "in", "out"]
    assert probes(tmp_path) == []


@pytest.mark.parametrize(("place", "name"), [("checkpoints/p", "checkpoint"), ("out", "out.path")])
def test_a_path_that_an_executor_does_not_see_is_named(tmp_path, place, name):
    """Pass: exit 4, with the option and the path; no probe is left."""

    def hide() -> None:
        for probe in probes(tmp_path / place):
            probe.unlink()

    session: Any = SimpleNamespace(sparkContext=Executors(hide))
    with pytest.raises(MachineError) as caught:
        check_shared(plan(tmp_path), session)
    assert caught.value.exit_code == 4
    assert str(caught.value).startswith(f"{name}: {tmp_path / place} is not shared")
    assert probes(tmp_path) == []


def test_on_one_machine_nothing_is_looked_for(tmp_path):
    """Pass: no job runs, and no folder is made."""
    check_shared(plan(tmp_path, "local[2]"), SimpleNamespace())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
