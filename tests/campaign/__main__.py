"""Plays rounds and prints what came of them."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from mainstem_testkit.java import start_java_quickly

from campaign.paths import PATHS
from campaign.places import Places
from campaign.report import as_text, into_docs, read
from campaign.rounds import Outcome, play


def repeat(seed: int, together: Sequence[str], seconds: float, load: int) -> str:
    """Return the command that repeats a round."""
    chosen = " ".join(f"--path '{name}'" for name in together)
    how = f"--seed {seed} --seconds {seconds:g} --load {load}"
    return f"PYTHONPATH=tests python -m campaign {how} {chosen}"


@click.command(help=__doc__)
@click.option("--rounds", default=1, help="Rounds to play.")
@click.option("--seed", default=0, help="The first round's seed; by the clock when 0.")
@click.option("--together", default=3, help="Paths of one round, in one document.")
@click.option("--path", "paths", multiple=True, help="Paths by name; random ones when left out.")
@click.option("--seconds", default=20.0, help="About how long events come in.")
@click.option("--load", default=1500, help="The most events of a path.")
@click.option("--json", "file", type=Path, help="A file to which outcomes are added, one a line.")
@click.option("--docs", type=Path, help="Only write the table of --json into this page.")
def main(
    rounds: int,
    seed: int,
    together: int,
    paths: Sequence[str],
    seconds: float,
    load: int,
    file: Path | None,
    docs: Path | None,
) -> None:
    """Play rounds; ends with 1 if a claim was broken."""
    if docs is not None:
        assert file is not None, "--docs needs --json"
        into_docs(docs, read(file))
        return
    seed = seed or int(time.time())
    outcomes: list[Outcome] = []
    failed = 0
    start_java_quickly()
    with (
        tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as name,
        Places(Path(name) / "servers") as places,
    ):
        # Each path comes before one comes again.
        order: list[int] = []
        chance = random.Random(seed)
        named = {way.name: way for way in PATHS}
        for number in range(rounds):
            ways = [named[name] for name in paths]
            while not paths and len(ways) < together:
                order = order or chance.sample(range(len(PATHS)), len(PATHS))
                ways.append(PATHS[order.pop()])
            again = repeat(seed + number, [way.name for way in ways], seconds, load)
            try:
                came = play(
                    ways,
                    seed + number,
                    places,
                    Path(name) / f"r{number}",
                    seconds=seconds,
                    load=load,
                )
            except Exception as error:
                failed += 1
                print(f"round {number}: {error}\n  {again}", flush=True)
                continue
            outcomes += came
            for each in came:
                verdict = "BROKEN: " + ", ".join(each.broken) if each.broken else "held"
                told = f"{each.path}: {each.claimed}, seen {each.verdict.seen}, {verdict}"
                print(f"round {number}: {told} ({each.verdict.expected} rows)", flush=True)
                if each.broken:
                    failed += 1
                    print(f"  faults: {', '.join(each.faults)}", flush=True)
            print(f"  {again}", flush=True)
            if came[0].own_ends:
                print(f"  ended by itself: {len(came[0].own_ends)} times", flush=True)
            if file is not None:
                with file.open("a") as out:
                    out.writelines(json.dumps(each.as_json()) + "\n" for each in came)
        print(as_text([json.loads(json.dumps(each.as_json())) for each in outcomes]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
