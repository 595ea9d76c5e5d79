"""Fuzzes `decode` and the planner."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click

from fuzz.documents import plan
from fuzz.payloads import FORMATS, decode

ROOT = Path(__file__).parents[2]


@click.command(help=__doc__)
@click.option("--payloads", default=1_000_000, help="Payloads, shared by the formats.")
@click.option("--documents", default=100_000, help="Documents.")
@click.option("--seed", default=0, help="By the clock when 0.")
def main(payloads: int, documents: int, seed: int) -> None:
    """Run both, and print what came of it."""
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


if __name__ == "__main__":
    main()
