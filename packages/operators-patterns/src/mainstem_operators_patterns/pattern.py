"""What a pattern says: variables, one after another, with how often and what lies between.

    pattern  = sequence ("|" sequence)*
    sequence = item (("..." | "!" name)? item)* ("!" name ("within" duration)?)?
    item     = (name | "(" pattern ")" | "{-" pattern "-}" | "PERMUTE" "(" name ("," name)* ")") quantity?
    quantity = ("?" | "*" | "+" | "{" n "}" | "{" n ",}" | "{" n "," m "}" | "{," m "}") "?"?

A quantity takes as much as it can, one with `?` behind it as little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations

from mainstem import PositiveDuration
from pydantic import TypeAdapter, ValidationError

#: How many variables a pattern may have once its quantities are written out, and how many PERMUTE.
MOST, _MOST_PERMUTED = 200, 5

_TOKEN = re.compile(
    r"\s*(?:(?P<open>\{-)|(?P<close>-\})|(?P<between>\.\.\.)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<quantity>[?*+]|\{\s*\d*\s*(?:,\s*\d*\s*)?\})|(?P<sign>[|()!,^$]))",
    re.ASCII,
)
_COUNTS = re.compile(r"\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}", re.ASCII)
_WORDS = ("permute", "within")
_DURATION: TypeAdapter[timedelta] = TypeAdapter(PositiveDuration)


class PatternError(ValueError):
    """A pattern that can't be read.

    Attributes:
        place: where, from 0.
    """

    def __init__(self, message: str, text: str, place: int) -> None:
        super().__init__(f"{message}, at {place + 1}: {text[:place]} >>> {text[place:]}")
        self.place = place


@dataclass(frozen=True)
class Variable:
    """A row that a definition holds of.

    Attributes:
        hidden: whether the row is left out of what comes out.
    """

    name: str
    hidden: bool = False


@dataclass(frozen=True)
class Between:
    """Any rows, as few as can be, none of which a definition holds of; they are no part of the match.

    Attributes:
        unless: the variable of that definition; None for whatever rows.
    """

    unless: str | None = None


@dataclass(frozen=True)
class Sequence:
    """One after another."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of some; the earlier are preferred."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """The same so many times.

    Attributes:
        most: None for however many.
        greedy: whether more is preferred to less.
    """

    item: Node
    least: int
    most: int | None
    greedy: bool = True


Node = Variable | Between | Sequence | Choice | Repeat


@dataclass(frozen=True)
class Absence:
    """No row that a definition holds of, after the last row of a match.

    Attributes:
        within: for how long after that row; None for as long as the match may last.
    """

    name: str
    within: timedelta | None


@dataclass(frozen=True)
class Pattern:
    """A whole one."""

    node: Node
    absence: Absence | None
    names: tuple[str, ...]


def read_pattern(text: str) -> Pattern:
    """Return what a text says.

    Raises:
        PatternError: it says nothing; tells where, and what was expected.
    """
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._names: dict[str, None] = {}
        self._absence: Absence | None = None

    def read(self) -> Pattern:
        node = self._choice()
        kind, value, place = self._next()
        if kind:
            raise self._error(f"expected the end, found {value!r}", place)
        return Pattern(node, self._absence, tuple(self._names))

    # -- words ----------------------------------------------------------------------------------

    def _next(self) -> tuple[str, str, int]:
        """Return the kind of the next word, it, and where it is; an empty kind at the end."""
        rest = self._text[self._at :]
        if not rest.strip():
            return "", "", len(self._text)
        place = self._at + len(rest) - len(rest.lstrip())
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._error("expected a variable or a sign of patterns", place)
        kind = str(found.lastgroup)
        if kind == "name" and found[kind].lower() in _WORDS:
            kind = found[kind].lower()
        return kind, found.group(found.lastgroup or 0), place

    def _take(self) -> tuple[str, str, int]:
        found = self._next()
        self._at = found[2] + len(found[1])
        return found

    def _takes(self, *values: str) -> bool:
        if self._next()[1].lower() not in values:
            return False
        self._take()
        return True

    def _error(self, message: str, place: int) -> PatternError:
        return PatternError(message, self._text, place)

    # -- parts ----------------------------------------------------------------------------------

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._takes("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        items: list[Node] = [self._item()]
        while True:
            kind, value, place = self._next()
            if kind in ("name", "open", "permute") or value == "(":
                items.append(self._item())
            elif kind == "between":
                self._take()
                items += [Between(), self._item()]
            elif value == "!":
                self._take()
                name = self._name()
                kind, value, _ = self._next()
                if kind in ("name", "open", "permute") or value == "(":
                    items += [Between(name), self._item()]
                    continue
                self._ends(name, place)
            else:
                return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _ends(self, name: str, place: int) -> None:
        """Take the absence at the end."""
        within = None
        if self._takes("within"):
            match = re.compile(r"\s*(\d+\s*[A-Za-z]+)").match(self._text, self._at)
            if match is None:
                raise self._error("expected a duration, such as 1 hour", self._at)
            try:
                within = _DURATION.validate_python(match[1])
            except ValidationError as error:
                raise self._error(str(error.errors()[0]["msg"]), match.start(1)) from None
            self._at = match.end()
        kind, value, at = self._next()
        if kind:
            raise self._error(f"expected the end after what must not follow, found {value!r}", at)
        if self._absence is not None:
            raise self._error("there is another that must not follow", place)
        self._absence = Absence(name, within)

    def _name(self) -> str:
        kind, value, place = self._take()
        if kind != "name":
            raise self._error(f"expected a variable, found {value or 'the end'!r}", place)
        self._names[value] = None
        return value

    def _item(self) -> Node:
        kind, value, place = self._next()
        if value in ("^", "$"):
            raise self._error(f"{value} has no place in a stream, which has no ends", place)
        if kind == "name":
            node: Node = Variable(self._name())
        elif kind == "permute":
            node = self._permuted()
        elif value == "(":
            self._take()
            node = self._choice()
            self._close(")")
        elif kind == "open":
            self._take()
            node = _hidden(self._choice())
            self._close("-}")
        else:
            raise self._error(f"expected a variable, ( or {{-, found {value or 'the end'!r}", place)
        return self._repeated(node)

    def _close(self, sign: str) -> None:
        _, value, place = self._take()
        if value != sign:
            raise self._error(f"expected {sign}, found {value or 'the end'!r}", place)

    def _permuted(self) -> Node:
        _, _, place = self._take()
        self._close("(")
        names = [self._name()]
        while self._takes(","):
            names.append(self._name())
        self._close(")")
        if len(names) > _MOST_PERMUTED:
            raise self._error(f"PERMUTE of more than {_MOST_PERMUTED} variables", place)
        orders = permutations([Variable(name) for name in names])
        return Choice(tuple(Sequence(order) for order in orders))

    def _repeated(self, node: Node) -> Node:
        kind, value, place = self._next()
        if kind != "quantity":
            return node
        self._take()
        least, most = self._counts(value, place)
        greedy = not self._takes("?")
        return Repeat(node, least, most, greedy)

    def _counts(self, value: str, place: int) -> tuple[int, int | None]:
        plain: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
        if value in plain:
            return plain[value]
        found = _COUNTS.fullmatch(value)
        assert found is not None  # noqa: S101
        first, comma, second = found.groups()
        if not first and not second:
            raise self._error("expected a number", place)
        least = int(first or 0)
        most = (int(second) if second else None) if comma else least
        if most is not None and (most < least or most == 0):
            raise self._error(f"{value} is no quantity", place)
        return least, most


def _hidden(node: Node) -> Node:
    if isinstance(node, Variable):
        return Variable(node.name, hidden=True)
    if isinstance(node, Sequence):
        return Sequence(tuple(map(_hidden, node.items)))
    if isinstance(node, Choice):
        return Choice(tuple(map(_hidden, node.options)))
    if isinstance(node, Repeat):
        return Repeat(_hidden(node.item), node.least, node.most, node.greedy)
    return node


def variables(node: Node) -> Iterator[str]:
    """Yield the names of the rows of a pattern, without what must not be."""
    if isinstance(node, Variable):
        yield node.name
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from variables(item)
    elif isinstance(node, Choice):
        for option in node.options:
            yield from variables(option)
    elif isinstance(node, Repeat):
        yield from variables(node.item)
