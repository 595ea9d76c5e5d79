"""One word per thing: what is not to be said stands nowhere, and the glossary explains each word once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROSE = ["docs/**/*.md", "packages/*/README.md", "README.md", "CONTRIBUTING.md", "SECURITY.md"]
SOURCES = ["packages/*/src/**/*.py", "benchmarks/*.py"]
#: What is said instead, by a pattern of what is not said. A space is any white space, also between the parts
#: of a text in source.
INSTEAD = {
    "far side|FarSide|far_side": "external system",
    "on (its|their) way": "in flight",
    "(try|tries|tried|trying) again": "retry",
    "held against": "compared with",
    "(begin|begins|start|starts|starting) anew": "restart, or start over (from nothing)",
    "unmendable|lasting error|passing error": "permanent, transient",
}
_SPACE = r'(?:\s|"\s+f?"|\n\s*#:?\s)+'


def texts():
    """Return the texts that people read, by file."""
    files = [file for pattern in (*PROSE, *SOURCES) for file in ROOT.glob(pattern)]
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in files}


@pytest.mark.parametrize("wrong", INSTEAD)
def test_what_has_another_word_is_not_said(wrong):
    """Pass: neither in docs nor in docstrings, options, errors and comments; says where else."""
    pattern = re.compile(rf"\b(?:{wrong.replace(' ', _SPACE)})\b", re.IGNORECASE)
    found = [
        f"{name}:{text[: hit.start()].count(chr(10)) + 1}: {hit[0]!r} is said {INSTEAD[wrong]!r}"
        for name, text in texts().items()
        for hit in pattern.finditer(text)
    ]
    assert found == []


def test_the_patterns_find_what_they_are_for():
    """Pass: also over lines, and between the parts of a text."""
    for wrong, text in (
        ("far side|FarSide|far_side", "the far\n    side"),
        ("on (its|their) way", 'what is on its "\n        "way to it'),
        ("(try|tries|tried|trying) again", "# is tried\n# again"),
    ):
        assert re.search(rf"\b(?:{wrong.replace(' ', _SPACE)})\b", text)


def test_the_glossary_has_each_word_once_and_in_order():
    """Pass: some 40 words, each with one meaning, in the order of the alphabet."""
    page = (ROOT / "docs/glossary.md").read_text()
    words = re.findall(r"^\| \*\*([^*]+)\*\* \| \S", page, re.MULTILINE)
    assert len(words) >= 35
    assert words == sorted(set(words), key=str.casefold)
