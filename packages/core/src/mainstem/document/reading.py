"""YAML 1.2 to plain values, with the place of every key and value.

Works on ruamel.yaml's node graph rather than on built objects: so every duplicate key is found, not
the first alone, and an alias can be counted before it is expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mainstem.errors import DocumentError, Problem

#: No number of a document needs more; Python writes none of over 4,300 digits.
_MOST_BITS = 1024
QUOTES = "Inside { } a value with commas, brackets or ${...} stands in quotes."
#: More values than this, aliases expanded, is an attack or a mistake; so are more bytes or levels.
MOST_VALUES, MOST_BYTES, MOST_LEVELS = 20_000, 2**20, 100
#: Halves of characters, as escapes make them; also bytes of the environment that are not UTF-8.
NO_TEXT = re.compile("[\ud800-\udfff]")

Path_ = tuple[str | int, ...]


@dataclass
class Written:
    """A document as written: plain values, and where each stands."""

    file: str
    folder: Path
    values: Any
    places: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: Where a reference stands for nothing that could be found.
    unresolved: set[Path_] = field(default_factory=set)
    #: Texts that stand in one line as they are, without quotes or escapes: their first column.
    plain: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    #: What changed the value at a path, if that is not as written.
    origins: dict[Path_, str] = field(default_factory=dict)

    def problem(
        self, message: str, path: Path_, *, hint: str = "", at_key: bool = False, exit_code: int = 2
    ) -> Problem:
        """Make a problem at a path, or at the nearest part of it that is written."""
        line = column = 0
        for length in range(len(path), -1, -1):
            part = path[:length]
            if part in self.origins:
                message = f"{message} ({self.origins[part]})"
                break
            place = (self.keys.get(part) if at_key else None) or self.places.get(part)
            if place:
                line, column = place
                break
        key = ".".join(str(p) for p in path)
        return Problem(message, key, self.file, line, column, hint, exit_code)

    def within(self, problem: Problem, path: Path_, start: int) -> Problem:
        """Return a problem of a text at the place in it, if the text stands there as it is."""
        if path not in self.plain or path in self.origins:
            return problem
        line, column = self.plain[path]
        return replace(problem, line=line, column=column + start)


def read_file(path: Path) -> Written:
    """Read a document from a file.

    Raises:
        DocumentError: there is no such file, it is not UTF-8, or not one YAML document.
    """
    try:
        text = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        raise DocumentError([Problem("there is no such file", file=str(path))]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        told = Problem("it is not UTF-8", file=str(path), line=line, hint="Save it as UTF-8.")
        raise DocumentError([told]) from None
    except (OSError, ValueError) as error:
        raise DocumentError([Problem(f"can't be read: {error}", file=str(path))]) from None
    return read_text(text, file=str(path), folder=path.resolve().parent)


def read_text(text: str, *, file: str = "", folder: Path | None = None) -> Written:
    """Read a document from text; relative paths in it are relative to `folder`."""
    yaml = YAML(typ="safe", pure=True)
    # The latest counts, as YAML says. The warning would show what stands there, secrets too.
    yaml.composer.warn_double_anchors = False
    written = Written(file, folder or Path.cwd(), None)
    if len(text) > MOST_BYTES:
        raise DocumentError([Problem(f"more than {MOST_BYTES:,} characters", file=file)])
    try:
        _check_bounds(yaml, text, file)
        nodes = list(yaml.compose_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        message = f"not YAML: {error.problem or error.context}"
        lines = text.split("\n")
        hint = QUOTES if 0 < line <= len(lines) and "{" in lines[line - 1] else ""
        raise DocumentError([Problem(message, "", file, line, column, hint)]) from None
    except (YAMLError, ValueError) as error:
        raise DocumentError([Problem(f"not YAML: {error}", file=file)]) from None
    except RecursionError:
        raise DocumentError([Problem("not YAML: nested too deeply", file=file)]) from None
    if len(nodes) != 1 or not isinstance(nodes[0], MappingNode):
        what = f"found {len(nodes)} documents" if len(nodes) != 1 else "found something else"
        raise DocumentError([Problem(f"expected one mapping; {what}", file=file, line=1)])
    builder = _Builder(yaml, written)
    try:
        written.values = builder.build(nodes[0], (), ())
    except _TooManyError:
        message = f"more than {MOST_VALUES:,} values once its aliases are expanded"
        raise DocumentError([Problem(message, file=file, line=1)]) from None
    except RecursionError:
        raise DocumentError([Problem("nested too deeply", file=file, line=1)]) from None
    return written


def _check_bounds(yaml: YAML, text: str, file: str) -> None:
    """Refuse what is too large or too deep while it is read, and not when it was."""
    depth = 0
    for count, event in enumerate(yaml.parse(text)):
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if depth > MOST_LEVELS:
            message = f"nested more than {MOST_LEVELS} deep"
            raise DocumentError([Problem(message, "", file, line, column)])
        if count > 3 * MOST_VALUES + 4:  # a value may have a key, a beginning and an end
            message = f"more than {MOST_VALUES:,} values"
            raise DocumentError([Problem(message, "", file, line, column)])


def read_regular(path: Path, most: int) -> str:
    """Return the text of a regular file.

    Raises:
        OSError: it can't be read.
        UnicodeDecodeError: it is not UTF-8.
        ValueError: it is no regular file (a device may never end), or has more bytes than `most`.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return data.decode("utf-8")


def from_values(values: Any, *, folder: Path | None = None) -> Written:
    """Take a document that is already plain values, for use from Python."""
    return Written("", folder or Path.cwd(), values)


class _TooManyError(Exception):
    pass


class _Builder:
    def __init__(self, yaml: YAML, written: Written) -> None:
        self._yaml = yaml
        self._written = written
        self._count = 0

    def build(self, node: Node, path: Path_, above: tuple[int, ...]) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _TooManyError
        place = (node.start_mark.line + 1, node.start_mark.column + 1)
        self._written.places.setdefault(path, place)
        if id(node) in above:
            self._wrong("an alias of something that contains it", path, place)
            return None
        above = (*above, id(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path, above)
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, i), above) for i, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)  # noqa: S101
        return self._scalar(node, path, place)

    def _mapping(self, node: MappingNode, path: Path_, above: tuple[int, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, ScalarNode):
                self._wrong("a key must be plain text", path, place)
                continue
            key = _unicode(key_node.value)
            if key is None:
                self._wrong("a key must be Unicode text: here is half a character", path, place)
                continue
            if key == "<<" and str(key_node.ctag) == "tag:yaml.org,2002:merge":
                for part in (
                    value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                ):
                    found = self.build(part, path, above)
                    if isinstance(found, dict):
                        merged = found | merged
                    else:
                        self._wrong("only a mapping can be merged", path, place)
                continue
            if key in values:
                first = self._written.keys[(*path, key)]
                self._wrong(
                    f"key {key!r} stands twice; first in line {first[0]}", (*path, key), place
                )
                continue
            self._written.keys[(*path, key)] = place
            self._written.places.pop((*path, key), None)
            values[key] = self.build(value_node, (*path, key), above)
            if value_node.start_mark.index == value_node.end_mark.index:
                # Where nothing stands is told by its key: what comes next is elsewhere.
                self._written.places[(*path, key)] = place
        return merged | values

    def _scalar(self, node: ScalarNode, path: Path_, place: tuple[int, int]) -> Any:
        tag = str(node.ctag)
        kind = tag.rpartition(":")[2]
        if not tag.startswith("tag:yaml.org,2002:") or kind not in {
            "null", "bool", "int", "float", "str", "timestamp",
        }:  # fmt: skip
            self._wrong(f"tag {tag!r} is not known here", path, place)
            return None
        if kind in {"str", "timestamp"}:
            mark, end = node.start_mark, node.end_mark
            wide = end.column - mark.column - len(node.value)
            if mark.line == end.line and wide in (0, 2):
                self._written.plain[path] = (place[0], place[1] + wide // 2)
            text = _unicode(node.value)
            if text is None:
                self._wrong("expected Unicode text: here is half a character", path, place)
            return text
        try:
            value = self._yaml.constructor.construct_object(node)
        except (YAMLError, ValueError) as error:
            self._wrong(f"not a {kind}: {error}", path, place)
            return None
        if (isinstance(value, float) and value != value) or value in (float("inf"), float("-inf")):
            self._wrong("a number must be finite", path, place)
            return None
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            self._wrong(f"a number may have {_MOST_BITS} bits", path, place)
            return None
        return value

    def _wrong(self, message: str, path: Path_, place: tuple[int, int]) -> None:
        key = ".".join(str(p) for p in path)
        self._written.problems.append(Problem(message, key, self._written.file, *place))


def _unicode(text: str) -> str | None:
    r"""Return text with characters whole that are escaped by halves, as JSON does: `"\ud83d\ude00"`."""
    if not NO_TEXT.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return None
