"""Writes docs/components.md from the options of the installed plugins."""

from __future__ import annotations

from pathlib import Path

from mainstem.cli.plugins import details
from mainstem.discovery import GROUPS
from mainstem.registry import Registry

HEAD = """\
# Components

Every word of this repository's packages, as `mainstem plugins show WORD` prints it.
`.venv/bin/python docs/make_components.py` writes this page. How each format writes and reads each type
stands in [formats.md](formats.md).

"""


def main() -> None:
    """Write the page."""
    registry = Registry()
    words = dict.fromkeys(w.name for w in registry.words if w.kind in GROUPS)
    parts = [f"## {word}\n\n```text\n{details(word, registry).rstrip()}\n```\n" for word in words]
    Path(__file__).with_name("components.md").write_text(HEAD + "\n".join(parts))


if __name__ == "__main__":
    main()
