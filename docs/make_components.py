"""Writes docs/components.md: the options of the installed plugins, and an example of each word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from mainstem.cli.plugins import details
from mainstem.discovery import GROUPS
from mainstem.registry import Registry
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
HEAD = """\
# Components

Every word of this repository's packages, as `mainstem plugins show WORD` prints it, and how a document
of the examples uses it.
`.venv/bin/python docs/make_components.py` writes this page. How each format writes and reads each type
stands in [formats.md](formats.md).

"""
_SECTIONS = {
    "source": "sources",
    "operator": "operators",
    "sink": "sinks",
    "observer": "observers",
    "delivery": "sinks",
    "format": "operators",
}


def documents() -> list[Path]:
    """Return the documents of the examples; first those with an example of their own."""
    found = [file for file in ROOT.glob("examples/*/*.yaml") if ".test." not in file.name]
    return sorted(found, key=lambda file: (file.parent.name == "words", str(file)))


def excerpts(file: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each word of a document with its kind, and the lines of the first node that uses it."""
    text = file.read_text()
    lines = text.splitlines()
    written: Any = YAML().load(text)
    if "state" in written:
        line = written.lc.key("state")[0]
        yield ("state store", written["state"]["use"]), lines[line]
    for kind, section in _SECTIONS.items():
        nodes = written.get(section, {})
        starts = sorted(nodes.lc.key(name)[0] for name in nodes)
        for name, node in nodes.items():
            word = _word(kind, node)
            if word:
                start = nodes.lc.key(name)[0]
                yield (kind, word), _lines(lines, start, starts)


def _word(kind: str, node: Mapping[str, Any]) -> str:
    if kind == "delivery":
        return str(node.get("deliver", ""))
    if kind == "format":
        return (
            str(node.get("with", {}).get("format", ""))
            if node["use"] in ("decode", "encode")
            else ""
        )
    return str(node["use"]).rpartition(":")[2]


def _lines(lines: list[str], start: int, starts: list[int]) -> str:
    """Return the lines of a node: up to the next one, or to what is less far to the right."""
    depth = len(lines[start]) - len(lines[start].lstrip())
    end = start + 1
    while end < len(lines) and end not in starts and lines[end].startswith(" " * (depth + 1)):
        end += 1
    return dedent("\n".join(lines[start:end]))


def examples() -> dict[tuple[str, str], tuple[Path, str]]:
    """Return a document for each word, by kind and word, and its lines that use it."""
    found: dict[tuple[str, str], tuple[Path, str]] = {}
    for file in documents():
        for key, text in excerpts(file):
            found.setdefault(key, (file, text))
    return found


def page() -> str:
    """Return the page."""
    registry = Registry()
    shown = examples()
    kinds: dict[str, list[str]] = {}
    for word in registry.words:
        if word.kind in GROUPS:
            kinds.setdefault(word.name, []).append(word.kind)
    parts = []
    for word, its in kinds.items():
        part = f"## {word}\n\n```text\n{details(word, registry).rstrip()}\n```\n"
        for file, text in dict.fromkeys(shown[kind, word] for kind in its if (kind, word) in shown):
            place = file.relative_to(ROOT)
            part += f"\n```yaml\n{text}\n```\n\nIn [{place}](../{place}).\n"
        parts.append(part)
    return HEAD + "\n".join(parts)


def main() -> None:
    """Write the page."""
    Path(__file__).with_name("components.md").write_text(page())


if __name__ == "__main__":
    main()
