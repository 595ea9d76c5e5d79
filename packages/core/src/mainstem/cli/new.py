"""What `mainstem new` writes: a pipeline or a plugin that works as it is, to be changed.

The files under `templates` are such projects with placeholder names, so that their code is linted
where it lies; `.template` ends the names of files that tools would obey there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Literal

from packaging.version import Version

from mainstem.catalogue import CATALOGUE
from mainstem.discovery import installed_words
from mainstem.errors import DocumentError, Problem

_PIPELINE = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_WORD = re.compile(r"(?=.{1,30}$)[a-z][a-z0-9]*(_[a-z0-9]+)*")
_EXPECTED_PIPELINE = (
    "lower-case letters, digits, '.', '_' and '-', at most 100, no sign at the front"
)
_EXPECTED_WORD = (
    "a lower-case letter, then lower-case letters and digits, at most 30, with single '_' between"
)
#: Words that YAML reads as something else than text.
_NO_TEXT = frozenset({"null", "true", "false"})


def new_pipeline(name: str, folder: Path) -> list[Path]:
    """Write a pipeline with sample data into a new folder; return its files.

    Raises:
        DocumentError: the name is no pipeline's, or there is something in the folder.
    """
    if not _PIPELINE.fullmatch(name):
        hint = f"Expected {_EXPECTED_PIPELINE}.{_instead(name)}"
        _refuse(f"{name!r} can't be the name of a pipeline", hint)
    return _write(("pipeline",), {"newword": name}, folder)


def new_plugin(kind: Literal["source", "sink", "operator"], name: str, folder: Path) -> list[Path]:
    """Write a plugin that brings one word, with tests, into a new folder; return its files.

    Args:
        kind: what the word is.
        name: the word, as in `use: WORD`.
        folder: the project's folder; made when it is not there yet.

    Raises:
        DocumentError: the name is no word or is taken, or there is something in the folder.
    """
    if not _WORD.fullmatch(name) or name in _NO_TEXT:
        hint = f"Expected {_EXPECTED_WORD}.{_instead(name)}"
        _refuse(f"{name!r} can't be the word of a plugin", hint)
    distribution = f"mainstem-{name.replace('_', '-')}"
    taken = {w.name: w.distribution for w in installed_words() if w.distribution == "mainstem"}
    taken |= {word: owner for (_, word), owner in CATALOGUE.items()}
    owner = taken.get(name) or (distribution if distribution in CATALOGUE.values() else None)
    if owner:
        _refuse(f"{name!r} is already brought by {owner}", "Choose another word.")
    core = Version(version("mainstem"))
    fitting = f">={core.major}.{core.minor},<{core.major}.{core.minor + 1}"
    names = {
        "mainstem-newword": distribution,
        "newword": name,
        "NewWord": "".join(part.capitalize() for part in name.split("_")),
        "newkind": kind,
        "newcore": f"mainstem{fitting}",
        "newtestkit": f"mainstem-testkit{fitting}",
    }
    return _write(("plugin", kind), names, folder)


def _refuse(message: str, hint: str) -> None:
    raise DocumentError([Problem(message, hint=hint)])


def _instead(name: str) -> str:
    """Return a word like the name that is right, as part of a hint."""
    word = re.sub(r"[^a-z0-9]+", "_", name.lower()).lstrip("0123456789_")[:30].strip("_")
    return f" Did you mean {word!r}?" if word and word not in _NO_TEXT else ""


def _write(templates: tuple[str, ...], names: Mapping[str, str], folder: Path) -> list[Path]:
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _refuse(f"the folder {folder} is not empty", "Name a new or an empty one.")
        written = []
        for template in templates:
            root = files("mainstem.cli").joinpath("templates", template)
            for path, text in _texts(root, PurePosixPath()):
                target = folder / _named(str(path), names)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_named(text, names), encoding="utf-8")
                written.append(target)
    except OSError as error:
        message = f"can't write into {folder}: {error.strerror}"
        raise DocumentError([Problem(message, hint="Name another folder.")]) from None
    return sorted(written)


def _texts(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the files below a folder of templates: path in the project, and text."""
    for entry in folder.iterdir():
        if entry.is_dir():
            if not entry.name.startswith((".", "__")):  # caches
                yield from _texts(entry, path / entry.name)
        else:
            yield path / entry.name.removesuffix(".template"), entry.read_text(encoding="utf-8")


def _named(text: str, names: Mapping[str, str]) -> str:
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    return text
