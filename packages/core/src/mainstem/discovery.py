"""What is installed, from metadata alone: no plugin is imported here, so no broken one is in the way."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Any

from mainstem.errors import PluginError

#: The entry-point group of each kind of component.
GROUPS = {
    "source": "mainstem.sources",
    "operator": "mainstem.operators",
    "sink": "mainstem.sinks",
    "state store": "mainstem.state_stores",
    "delivery": "mainstem.delivery",
    "format": "mainstem.formats",
    "observer": "mainstem.observers",
}
COMMANDS_GROUP = "mainstem.commands"


@dataclass(frozen=True, order=True)
class Word:
    """One word that a distribution brings, as its metadata says."""

    kind: str
    name: str
    distribution: str
    version: str
    module: str


def load_command(word: Word) -> Any:
    """Import a command that a distribution brings.

    Raises:
        PluginError: it can't be imported; says why.
    """
    try:
        return EntryPoint(word.name, word.module, COMMANDS_GROUP).load()
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise PluginError(f"command {word.name!r} can't be imported: {cause}") from error


def installed_words() -> list[Word]:
    """Return every word of every installed distribution, from metadata alone."""
    changed = []
    for folder in sys.path:
        with suppress(OSError):
            changed.append((folder, Path(folder).stat().st_mtime_ns))
    return list(_words(tuple(changed)))


@lru_cache(maxsize=1)
def _words(_: tuple[tuple[str, int], ...]) -> tuple[Word, ...]:
    """Return the words of the folders that modules are found in, as they were at these times."""
    kinds = {group: kind for kind, group in GROUPS.items()} | {COMMANDS_GROUP: "command"}
    words: set[Word] = set()
    seen: set[str] = set()
    for found in distributions():
        entries = found.entry_points
        ours = [e for e in entries if e.group in kinds]
        if not ours:
            continue
        name, version = _named(found)
        if name in seen:  # an older copy later on sys.path
            continue
        seen.add(name)
        words.update(Word(kinds[e.group], e.name, name, version, e.value) for e in ours)
    return tuple(sorted(words))


def _named(found: Distribution) -> tuple[str, str]:
    """Return a distribution's name and version, of which its metadata has one line each.

    Parsed as the mail message that it is it would take ten times as long.
    """
    headers = (found.read_text("METADATA") or "").partition("\n\n")[0].splitlines()
    told = dict(line.split(": ", 1) for line in headers if line.startswith(("Name: ", "Version: ")))
    if len(told) < 2:
        return found.metadata["Name"], found.metadata["Version"]
    return told["Name"].strip(), told["Version"].strip()
