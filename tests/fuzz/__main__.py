"""Fuzzes `decode`, the planner, and every message source."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from campaign.places import Places

from fuzz.documents import plan
from fuzz.messages import into
from fuzz.payloads import FORMATS, decode
from fuzz.senders import SENDERS

ROOT = Path(__file__).parents[2]


@click.command(help=__doc__)
@click.option("--payloads", default=1_000_000, help="Payloads, shared by the formats.")
@click.option("--documents", default=100_000, help="Documents.")
@click.option("--messages", default=5_000, help="Messages for each source.")
@click.option("--only", multiple=True, help="A source. Repeatable.")
@click.option("--seed", default=0, help="By the clock when 0.")
def main(payloads: int, documents: int, messages: int, only: Sequence[str], seed: int) -> None:
    """Run all, and print what came of it."""
    seed = seed or int(time.time())
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as name:
        for number, kind in enumerate(FORMATS if payloads else ()):
            folder = Path(name) / str(number)
            print(
                f"decode {kind}: {decode(kind, payloads // len(FORMATS), seed, folder)}", flush=True
            )
        if documents:
            print(plan(documents, seed, ROOT, Path(name)), flush=True)
        with Places(Path(name) / "places") as places:
            for source in (only or SENDERS) if messages else ():
                told = into(source, messages, seed, Path(name) / source, places)
                print(f"{source}: {told}", flush=True)


if __name__ == "__main__":
    main()
