"""Start-up of the command with 50 plugins installed. Goals: --help <= 0.25 s, validate <= 0.5 s."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

PLUGINS = 50
ROUNDS = 15
DOCUMENT = Path(__file__).parents[1] / "examples" / "flights" / "flights.yaml"
KINDS = ("sources", "operators", "sinks", "delivery")

_MODULE = '''\
"""A plugin that no document names, so nobody may import it."""

raise AssertionError("imported")
'''


def make_plugins(site: Path) -> None:
    """Put distributions into a folder just as an installer does: a module and its metadata."""
    for number in range(PLUGINS):
        name = f"dummy{number}"
        (site / f"{name}.py").write_text(_MODULE)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        metadata = (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: mainstem>=0.1\n"
        )
        (info / "METADATA").write_text(metadata)
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text(f"{name}.py,,\n{name}-1.0.dist-info/METADATA,,\n")
        kind = KINDS[number % len(KINDS)]
        (info / "entry_points.txt").write_text(f"[mainstem.{kind}]\n{name} = {name}\n")


def compile_installed() -> None:
    """Compile our packages to byte code, as installing a wheel does (the rest was installed so)."""
    for package in ("mainstem", "mainstem_operators_windows"):
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=1)


def seconds(command: list[str], env: dict[str, str]) -> float:
    """Return how long a command takes; it must succeed."""
    began = time.perf_counter()
    subprocess.run(command, env=env, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Time the commands in turn and print a table."""
    mainstem = str(Path(sys.executable).with_name("mainstem"))
    commands = {
        "python -c pass": ([sys.executable, "-c", "pass"], None),
        "mainstem --help": ([mainstem, "--help"], 0.25),
        "mainstem validate FILE": ([mainstem, "validate", str(DOCUMENT)], 0.5),
        "mainstem plugins": ([mainstem, "plugins"], None),
    }
    compile_installed()
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as site:
        make_plugins(Path(site))
        env = {**os.environ, "PYTHONPATH": site}
        listed = subprocess.run(
            [mainstem, "plugins"], env=env, check=True, capture_output=True, text=True
        ).stdout
        assert listed.count("dummy") >= PLUGINS, listed
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(ROUNDS + 1):
            for name, (command, _) in commands.items():
                taken = seconds(command, env)
                if number:  # the first round warms up
                    times[name].append(taken)
    table = Table(title=f"Start-up, {PLUGINS} plugins installed", title_justify="left")
    for column in ("command", "median, s", "least, s", "times `pass`", "goal, s"):
        table.add_column(column, justify="left" if column == "command" else "right")
    base = median(times["python -c pass"])
    for name, (_, goal) in commands.items():
        middle = median(times[name])
        cells = (f"{middle:.3f}", f"{min(times[name]):.3f}", f"{middle / base:.1f}")
        table.add_row(name, *cells, f"{goal}" if goal else "")
    Console().print(table)


if __name__ == "__main__":
    main()
