"""Negative controls: what is broken on purpose must be caught, or the campaign shows nothing.

`python -m campaign.controls`. Each control plays rounds of one path until its fault is caught, and says
how many it took.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from mainstem_testkit.java import start_java_quickly

from campaign.judging import Verdict
from campaign.paths import Way
from campaign.places import Places
from campaign.rounds import play

BUILDS = Path(__file__).with_name("builds")


@dataclass(frozen=True)
class Control:
    """Something that is wrong.

    Attributes:
        build: how Mainstem is broken (`builds/sitecustomize.py`); not at all when empty.
        faults: what breaks in its rounds.
        caught: whether it shows.
    """

    name: str
    way: Way
    build: str
    faults: Sequence[str]
    caught: Callable[[Verdict], bool]


def _doubled(verdict: Verdict) -> bool:
    return verdict.doubled > 0


CONTROLS = (
    Control(
        "`microbatch` into a table that is only appended to",
        Way("files", "stateless", "sql, microbatch"),
        "",
        ["driver killed", "killed at a step"],
        _doubled,
    ),
    Control(
        "acknowledged before it is stored",
        Way("amqp-classic", "stateless", "files"),
        "acknowledges-first",
        ["driver killed", "receiver killed"],
        lambda verdict: verdict.lost > 0,
    ),
    Control(
        "a sink that forgets its ledger",
        Way("files", "stateless", "sql, transactional"),
        "forgets-its-ledger",
        ["driver killed", "killed at a step"],
        _doubled,
    ),
    Control(
        "a receiver that keeps stale positions",
        Way("kinesis", "stateless", "files"),
        "stale-positions",
        ["driver killed", "receiver killed"],
        _doubled,
    ),
)


@click.command(help=__doc__)
@click.option("--seed", default=1, help="The first round's seed.")
@click.option("--most", default=10, help="Rounds after which a control counts as not caught.")
@click.option("--only", default="", help="Controls whose names have this.")
def main(seed: int, most: int, only: str) -> None:
    """Play the controls; ends with 1 if one was not caught."""
    start_java_quickly()
    missed = 0
    with (
        tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as name,
        Places(Path(name) / "servers") as places,
    ):
        for number, control in enumerate(CONTROLS):
            if only not in control.name:
                continue
            env = (
                {"PYTHONPATH": str(BUILDS), "CAMPAIGN_BUILD": control.build}
                if control.build
                else {}
            )
            for attempt in range(most):
                folder = Path(name) / f"{number}-{attempt}"
                (came,) = play(
                    [control.way],
                    seed + attempt,
                    places,
                    folder,
                    seconds=20,
                    env=env,
                    only=control.faults,
                )
                if control.caught(came.verdict):
                    told = f"{came.verdict.lost} lost, {came.verdict.doubled} doubled"
                    print(f"{control.name}: caught in round {attempt + 1} ({told})", flush=True)
                    break
            else:
                missed += 1
                print(f"{control.name}: NOT caught in {most} rounds", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
