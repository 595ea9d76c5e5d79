"""Texts of .proto files, as registries keep them: which messages they have, in which places."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mainstem_registry import File, schema_text

from mainstem_formats_protobuf import descriptors
from mainstem_formats_protobuf.wire import SIZED, as_varint

#: What a text consists of, as far as messages are concerned.
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')|(?P<word>[\w.]+)|(?P<mark>[{};])",
    re.DOTALL,
)


def places(text: str) -> dict[str, tuple[int, ...]]:
    """Return the messages of a .proto file by their full names, each with its place.

    A place is which message of the file it is, which one in that, and so on, counted from 0, as
    Confluent's serializers write it before a value. Some clients register the file's descriptor, in
    base64, instead of its text.
    """
    if re.fullmatch(r"[A-Za-z0-9+/\s]+=*\s*", text):
        return _described(text)
    made = _Places()
    line: list[str] = []
    for word in _words(text):
        if word == "{":
            made.begin(line)
        elif word == "}":
            made.end()
        elif word == ";":
            made.statement(line)
        else:
            line.append(word)
            continue
        line = []
    return {name: () if name in made.uncertain else place for name, place in made.found.items()}


class _Block:
    """What stands between two braces.

    Attributes:
        name, place: the message's; None and the enclosing message's where it is no message.
        count: how many messages are in it so far.
        maps: whether it has fields that are maps.
    """

    def __init__(self, name: str | None, place: tuple[int, ...], outer: _Block | None) -> None:
        self.name, self.place, self.outer = name, place, outer
        self.count, self.maps = 0, False

    @property
    def message(self) -> _Block:
        """The message, or file, that messages in the block belong to."""
        return self if self.name is not None or self.outer is None else self.outer.message


class _Places:
    def __init__(self) -> None:
        self.found: dict[str, tuple[int, ...]] = {}
        #: Messages behind or before maps: clients that go by descriptors count these too, others do not.
        self.uncertain: set[str] = set()
        self._package = ""
        self._block = _Block("", (), None)

    def begin(self, line: list[str]) -> None:
        """Begin a block, whose line so far is given."""
        words = line[1:] if line[:1] in (["export"], ["local"]) else line
        name = words[1] if words[:1] == ["message"] and len(words) == 2 else None
        group = words.index("group") if "group" in words[:2] else -1
        if group >= 0 and len(words) > group + 1 and words[:1] != ["message"]:
            name = words[group + 1]  # a field and a message at once
        if name is None:
            self._block = _Block(None, (), self._block)
            return
        its = self._block.message
        whole = f"{its.name or self._package}.{name}".lstrip(".")
        self.found[whole] = (*its.place, its.count)
        its.count += 1
        self._block = _Block(whole, self.found[whole], self._block)

    def end(self) -> None:
        """End a block."""
        its = self._block
        if its.name and its.maps:
            self.uncertain |= {name for name in self.found if name.startswith(f"{its.name}.")}
        self._block = its.outer or its

    def statement(self, line: list[str]) -> None:
        """Take a line that is no block."""
        if line[:1] == ["package"] and len(line) > 1 and self._block.outer is None:
            self._package = line[1]
        elif line[:1] == ["map"] and len(line) > 3:
            self._block.message.maps = True


def _described(text: str) -> dict[str, tuple[int, ...]]:
    try:
        held = base64.b64decode(text)
        messages = descriptors.read(
            as_varint(1 << 3 | SIZED) + as_varint(len(held)) + held
        ).messages
    except ValueError:
        return {}
    found: dict[str, tuple[int, ...]] = {}
    counts: dict[str, int] = {}
    for name in messages:
        outer = name.rpartition(".")[0]
        place = found.get(outer, ())
        outer = outer if place else ""
        found[name] = (*place, counts.get(outer, 0))
        counts[outer] = counts.get(outer, 0) + 1
    return found


def imports(text: str) -> list[str]:
    """Return what a .proto file imports, but for what every protoc brings."""
    found = []
    waits = False
    for token in _TOKEN.finditer(text):
        word, quoted = token["word"], token["text"]
        if waits and quoted:
            found.append(quoted[1:-1])
        if word or quoted or token["mark"]:  # no comment
            waits = word == "import" or (waits and word in ("public", "weak", "option"))
    return [name for name in found if not name.startswith("google/protobuf/")]


def with_imports(path: Path, folders: Sequence[Path] = ()) -> tuple[File, ...]:
    """Return a .proto file behind all that it imports, and they do, each by the name that imports have.

    Args:
        folders: in which what it imports is looked for, beside its own.

    Raises:
        ValueError: a file is not there, or can't be read.
    """
    found: dict[str, File] = {}

    def add(name: str, file: Path, within: tuple[str, ...]) -> None:
        if name in within:
            raise ValueError(f"{name} imports itself")
        text = schema_text(file, "schema_file")
        for other in imports(text):
            if other not in found:
                held = [folder / other for folder in (path.parent, *folders)]
                there = next((each for each in held if each.is_file()), None)
                if there is None:
                    raise ValueError(f"{name} imports {other}, which is not there")
                add(other, there, (*within, name))
        found[name] = File(name, text, tuple(imports(text)))

    add(path.name, path, ())
    return tuple(found.values())


def _words(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        if word := found["word"] or found["mark"]:
            yield word
