"""Tests that are run in turn: each commit draws a share of the dear ones.

The tests marked `in_turn` of a file are dealt to `mainstem_turns` turns one after the other, from a turn
that the file's name gives, so that each turn has its share of every file and takes about as long; those
marked `together=True` are all in that one. A commit has a turn by its id: the same tests are run whenever
the same commit is tested, others with the next.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

#: The variable that chooses a turn by hand: its number, or `all`.
TURN, ALL = "MAINSTEM_TURN", "all"


class Tier(Enum):
    """When a test is run."""

    EVERY = "every time"
    TURN = "in turn"
    ALL = "with all tests alone"


@dataclass(frozen=True)
class Turn:
    """Which of the tests that are run in turn are run now.

    Attributes:
        number: the turn, from 0; None where all are run.
        of: how many turns there are.
        why: what chose it.
        draw: a number that differs also between commits of one turn.
    """

    number: int | None
    of: int
    why: str
    draw: int = 0

    def takes(self, file: str, nth: int) -> bool:
        """Whether a test is run now.

        Args:
            file: the name of its file.
            nth: its number among the file's tests that are run in turn, from 0; 0 for all of a file that
                is drawn together.
        """
        return self.number is None or (_hashed(file) + nth) % self.of == self.number

    def one(self, names: Sequence[str]) -> list[str]:
        """Return one of some names, drawn anew by each commit; all of them where all tests are run.

        Not by the turn's number: a test that is itself run in turn would draw the same each time.
        """
        if self.number is None or not names:
            return list(names)
        return [names[self.draw % len(names)]]

    def __str__(self) -> str:
        return "all" if self.number is None else f"{self.number + 1} of {self.of} ({self.why})"


def turn_of(folder: Path, turns: int) -> Turn:
    """Return the turn of the commit that is checked out in a folder, or the one chosen by hand.

    Raises:
        ValueError: the one chosen by hand is none.
    """
    chosen = os.environ.get(TURN, "")
    if chosen == ALL or turns <= 1:
        return Turn(None, turns, chosen or "there is one turn")
    if chosen:
        if not chosen.isdecimal() or not 1 <= int(chosen) <= turns:
            raise ValueError(f"{TURN} is {chosen!r}: give a number from 1 to {turns}, or {ALL}")
        return Turn(int(chosen) - 1, turns, TURN, int(chosen))
    commit = _commit(folder)
    if not commit:
        return Turn(None, turns, "no commit is checked out")
    drawn = _hashed(commit)
    return Turn(drawn % turns, turns, f"drawn by commit {commit[:10]}", drawn // turns)


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _commit(folder: Path) -> str:
    """Return the id of the commit in a folder; empty where there is none, or no git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
