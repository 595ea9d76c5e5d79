"""SQL of definitions and measures: which rows of a match it speaks of.

`small.amount` is the amount of the last row of `small`; `first`, `last`, `prev`, `count`, `sum`, `avg`,
`min`, `max` and `collect_list` are of the rows of a variable, or of all where none is named. What is left
is SQL of one row, which Spark computes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

#: Functions over the rows of a match; those that a definition can have.
FUNCTIONS = ("first", "last", "prev", "count", "sum", "avg", "min", "max", "collect_list")
RUNNING = FUNCTIONS[:-1]
_NUMBERS = ("match_number", "next", "classifier")

_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\n]*)|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")|(?P<quoted>`(?:[^`]|``)*`)"
    r"|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=>|<>|!=|<=|>=|==|\|\||::|->|.)",
    re.DOTALL,
)


class ExpressionError(ValueError):
    """SQL that says what can't be computed over the rows of a match."""


@dataclass(frozen=True)
class Token:
    """A word of SQL and where it is."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Reference:
    """What an expression asks of the rows of a match.

    Attributes:
        function: of `FUNCTIONS`.
        variable: whose rows; None for all.
        value: SQL of one row; empty where rows are counted.
    """

    function: str
    variable: str | None
    value: str


@dataclass(frozen=True)
class Expression:
    """SQL with its references: texts between them, one more than there are."""

    texts: tuple[str, ...]
    references: tuple[Reference, ...]

    def written(self, name: Callable[[Reference], str]) -> str:
        """Return SQL in which each reference is something else."""
        parts = [self.texts[0]]
        for reference, text in zip(self.references, self.texts[1:], strict=True):
            parts += [name(reference), text]
        return "".join(parts)


def tokens(sql: str) -> list[Token]:
    """Return the words of SQL, without space.

    Raises:
        ExpressionError: a text does not end.
    """
    found = []
    at = 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        assert match is not None and match.lastgroup is not None  # noqa: S101, PT018
        if match.lastgroup == "sign" and match.group() in "'\"`":
            raise ExpressionError(f"{match.group()} that is never closed, at {at + 1}")
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), at))
        at = match.end()
    return found


def read_expression(sql: str, variables: Collection[str], own: str | None = None) -> Expression:
    """Return SQL with what it asks of the rows of a match.

    Args:
        variables: the names of the pattern.
        own: the variable that is defined: `own.column` is the row's.

    Raises:
        ExpressionError: it asks what can't be said.
    """
    words = tokens(sql)
    spans: list[tuple[int, int, Reference | str]] = []
    at = 0
    while at < len(words):
        word = words[at]
        following = words[at + 1].text if at + 1 < len(words) else ""
        before = words[at - 1].text if at else ""
        if word.kind == "name" and following == "(" and before != ".":
            name = word.text.lower()
            if name in _NUMBERS:
                raise ExpressionError(f"{name}() is not known here")
            if name in FUNCTIONS:
                close = _closing(words, at + 1)
                inner = sql[words[at + 1].end : words[close].start]
                reference = _reference(name, inner, variables)
                spans.append((word.start, words[close].end, reference))
                at = close + 1
                continue
        if word.kind == "name" and word.text in variables and following == "." and before != ".":
            if at + 2 >= len(words) or words[at + 2].kind not in ("name", "quoted"):
                raise ExpressionError(f"expected a column after {word.text}.")
            column = words[at + 2]
            given: Reference | str = column.text
            if word.text != own:
                given = Reference("last", word.text, column.text)
            spans.append((word.start, column.end, given))
            at += 3
            continue
        at += 1
    texts, references, last = [""], [], 0
    for start, end, found in spans:
        texts[-1] += sql[last:start]
        if isinstance(found, str):
            texts[-1] += found
        else:
            references.append(found)
            texts.append("")
        last = end
    texts[-1] += sql[last:]
    return Expression(tuple(texts), tuple(references))


def _closing(words: Sequence[Token], opening: int) -> int:
    depth = 0
    for at in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[at].text, 0)
        if not depth:
            return at
    raise ExpressionError("a ( that is never closed")


def _reference(function: str, inner: str, variables: Collection[str]) -> Reference:
    words = tokens(inner)
    if not words:
        raise ExpressionError(f"{function}() of nothing")
    named: set[str] = set()
    text, last = "", 0
    for at, word in enumerate(words):
        following = words[at + 1].text if at + 1 < len(words) else ""
        before = words[at - 1].text if at else ""
        if word.kind == "name" and following == "(" and word.text.lower() in FUNCTIONS:
            raise ExpressionError(f"{word.text} within {function}")
        if word.kind != "name" or word.text not in variables or before == ".":
            continue
        if following == ".":
            named.add(word.text)
            text += inner[last : word.start]
            last = words[at + 1].end
        elif len(words) == 1:
            named.add(word.text)
            text, last = "*", len(inner)
    text = (text + inner[last:]).strip()
    if len(named) > 1:
        raise ExpressionError(f"{function} of rows of {' and '.join(sorted(named))} at once")
    if text == "*" and function != "count":
        raise ExpressionError(f"{function} of rows, not of a value")
    if text.lower().startswith("distinct "):
        raise ExpressionError(f"{function}(DISTINCT ...) is not known here")
    variable = named.pop() if named else None
    return Reference(function, variable, "" if text == "*" else text)


# -- definitions that look at rows before ----------------------------------------------------------


def _comparison(work: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(a: Any, b: Any) -> bool:
        if a != a or b != b:  # NaN
            return work(a != a, b != b)
        return work(a, b)

    return compared


#: Computes something of what was added up and of a row's values.
Computed = Callable[[Sequence[Any], Sequence[Any]], Any]

#: By a sign, whether two values of one kind are so: NaN is the greatest number, and equal to itself.
COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    sign: _comparison(work)
    for sign, work in (
        ("=", operator.eq), ("==", operator.eq), ("<>", operator.ne), ("!=", operator.ne),
        ("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge),
    )
}  # fmt: skip


def _divided(a: Any, b: Any) -> Any:
    return None if b == 0 else a / b


def _rest(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    found = abs(a) % abs(b)
    return -found if a < 0 else found  # as SQL has it


_COUNTED: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": _rest,
}
LITERAL = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")
_ENDS = {"and", "or", "then", "when", "else", "end"}


@dataclass(frozen=True)
class Part:
    """A part of an expression: SQL of one row, or something of parts."""

    sql: str = ""
    reference: int | None = None
    operation: str = ""
    parts: tuple[Part, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it asks nothing of rows before."""
        return self.reference is None and all(part.plain for part in self.parts)


class Definition:
    """A definition that asks of the rows of a match so far.

    Spark computes the parts that are of one row; what puts them together is done here, with SQL's nulls.

    Attributes:
        values: the SQL of one row that is needed.
        references: what is asked of rows before.
        part: the whole, of its parts.
    """

    def __init__(self, expression: Expression) -> None:
        self.references = expression.references
        self.values: list[str] = []
        #: References stand in the text as words of their own.
        marks = {f"__ref{at}": at for at in range(len(self.references))}
        numbered = iter(marks)
        text = expression.written(lambda _: f" {next(numbered)} ")
        self.part = _Reader(text, marks).read()
        self._compute = self._compiled(self.part)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compute"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compute = self._compiled(self.part)

    def holds(self, totals: Sequence[Any], values: Sequence[Any]) -> bool:
        """Whether it holds of a row.

        Args:
            totals: the references, over the rows up to this one.
            values: those of `values` of the row.
        """
        return self._compute(totals, values) is True

    def _compiled(self, part: Part) -> Computed:
        if part.reference is not None:
            at = part.reference
            return lambda totals, _: totals[at]
        if LITERAL.fullmatch(part.sql):
            number = _number(part.sql)
            return lambda _, __: number
        if part.sql:
            place = self._value(part.sql)
            return lambda _, values: values[place]
        parts = [self._compiled(each) for each in part.parts]
        return _operation(part.operation, parts)

    def _value(self, sql: str) -> int:
        if sql not in self.values:
            self.values.append(sql)
        return self.values.index(sql)


def _number(text: str) -> Any:
    """Return a number as SQL has it."""
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _operation(name: str, parts: Sequence[Computed]) -> Computed:
    if name == "and":
        return lambda t, v: _all([part(t, v) for part in parts])
    if name == "or":
        return lambda t, v: _any([part(t, v) for part in parts])
    first = parts[0]
    if name == "not":

        def negated(t: Sequence[Any], v: Sequence[Any]) -> Any:
            found = first(t, v)
            return None if found is None else not found

        return negated
    if name == "null":
        return lambda t, v: first(t, v) is None
    if name == "neg":

        def less(t: Sequence[Any], v: Sequence[Any]) -> Any:
            found = first(t, v)
            return None if found is None else -found

        return less
    work = _COUNTED[name] if name in _COUNTED else COMPARED[name]
    second = parts[1]

    def both(t: Sequence[Any], v: Sequence[Any]) -> Any:
        a, b = first(t, v), second(t, v)
        if a is None or b is None:
            return None
        if isinstance(a, Decimal) and isinstance(b, float | timedelta):
            a = float(a)
        elif isinstance(b, Decimal) and isinstance(a, float | timedelta):
            b = float(b)
        return work(a, b)

    return both


def _all(found: Sequence[Any]) -> Any:
    if any(each is False for each in found):
        return False
    return None if any(each is None for each in found) else True


def _any(found: Sequence[Any]) -> Any:
    if any(each is True for each in found):
        return True
    return None if any(each is None for each in found) else False


class _Reader:
    """Reads SQL with references into parts; what asks nothing of rows before stays as it is."""

    def __init__(self, sql: str, marks: Mapping[str, int]) -> None:
        self._sql = sql
        self._marks = marks
        self._words = tokens(sql)
        self._at = 0

    def read(self) -> Part:
        found = self._or()
        if self._at < len(self._words):
            raise ExpressionError(f"can't be read from {self._words[self._at].text!r} on")
        return found

    def _word(self) -> str:
        return self._words[self._at].text.lower() if self._at < len(self._words) else ""

    def _take(self, *words: str) -> str:
        found = self._word()
        if found not in words:
            return ""
        self._at += 1
        return found

    def _made(self, start: int, operation: str, *parts: Part) -> Part:
        """Return an operation, as text where it asks nothing of rows before."""
        made = Part(operation=operation, parts=parts)
        if not made.plain:
            return made
        return Part(sql=self._sql[self._words[start].start : self._words[self._at - 1].end])

    def _or(self) -> Part:
        start, found = self._at, [self._and()]
        while self._take("or"):
            found.append(self._and())
        return found[0] if len(found) == 1 else self._made(start, "or", *found)

    def _and(self) -> Part:
        start, found = self._at, [self._not()]
        while self._take("and"):
            found.append(self._not())
        return found[0] if len(found) == 1 else self._made(start, "and", *found)

    def _not(self) -> Part:
        start = self._at
        if self._take("not", "!"):
            return self._made(start, "not", self._not())
        return self._compared()

    def _compared(self) -> Part:
        start, found = self._at, self._sum()
        word = self._word()
        if word in COMPARED:
            self._at += 1
            return self._made(start, word, found, self._sum())
        negated = False
        if word == "is":
            self._at += 1
            negated = bool(self._take("not"))
            if not self._take("null"):
                raise ExpressionError("expected NULL after IS")
            made = self._made(start, "null", found)
            return self._made(start, "not", made) if negated else made
        if word == "not":
            self._at += 1
            negated = True
            word = self._word()
        if word == "between":
            self._at += 1
            low = self._sum()
            if not self._take("and"):
                raise ExpressionError("expected AND after BETWEEN")
            high = self._sum()
            made = self._made(
                start,
                "and",
                Part(operation=">=", parts=(found, low)),
                Part(operation="<=", parts=(found, high)),
            )
            return self._made(start, "not", made) if negated else made
        if word in ("in", "like", "rlike", "<=>") or negated:
            return self._rest_of(start, found)
        return found

    def _rest_of(self, start: int, found: Part) -> Part:
        """Take what is left of a condition that only Spark can compute."""
        if not found.plain:
            raise ExpressionError(
                f"{self._word().upper()} of rows before can't be computed: write it with =, <, BETWEEN, "
                "AND, OR"
            )
        while self._at < len(self._words) and self._word() not in ("and", "or", ")"):
            if self._word() == "(":
                self._at = _closing(self._words, self._at)
            if self._word() in self._marks:
                raise ExpressionError("rows before stand where they can't be computed")
            self._at += 1
        return Part(sql=self._sql[self._words[start].start : self._words[self._at - 1].end])

    def _sum(self) -> Part:
        start, found = self._at, self._product()
        while sign := self._take("+", "-"):
            found = self._made(start, sign, found, self._product())
        return found

    def _product(self) -> Part:
        start, found = self._at, self._signed()
        while sign := self._take("*", "/", "%"):
            found = self._made(start, sign, found, self._signed())
        return found

    def _signed(self) -> Part:
        start = self._at
        if self._take("-"):
            return self._made(start, "neg", self._signed())
        self._take("+")
        return self._one()

    def _one(self) -> Part:
        start, word = self._at, self._word()
        if not word or word in _ENDS or word in (")", ","):
            raise ExpressionError(f"expected a value, found {word or 'the end'!r}")
        if word == "(":
            self._at += 1
            found = self._or()
            if not self._take(")"):
                raise ExpressionError("a ( that is never closed")
            return self._made(start, "", found) if found.plain else found
        if self._words[start].text in self._marks:
            self._at += 1
            return Part(reference=self._marks[self._words[start].text])
        if word == "case":
            depth = 0
            while self._at < len(self._words):
                depth += {"case": 1, "end": -1}.get(self._word(), 0)
                self._at += 1
                if not depth:
                    break
            return self._leaf(start)
        self._at += 1
        if word in ("interval", "date", "timestamp"):
            self._literal(interval=word == "interval")
        while self._at < len(self._words):
            sign = self._word()
            if sign in (".", "::"):
                self._at += 2
            elif sign == "(":
                self._at = _closing(self._words, self._at) + 1
            elif sign == "[":
                while self._at < len(self._words) and self._word() != "]":
                    self._at += 1
                self._at += 1
            else:
                break
        return self._leaf(start)

    def _literal(self, *, interval: bool) -> None:
        """Take what follows INTERVAL, DATE or TIMESTAMP."""
        while self._at < len(self._words) and self._words[self._at].kind in ("text", "number"):
            self._at += 1
            units = self._words[self._at : self._at + 1]
            if interval and units and units[0].kind == "name" and self._word() not in _ENDS:
                self._at += 1

    def _leaf(self, start: int) -> Part:
        words = self._words[start : self._at]
        if any(word.text in self._marks for word in words):
            raise ExpressionError(
                "a function of rows before can't be computed: put them together with + - * / and "
                "comparisons"
            )
        return Part(sql=self._sql[words[0].start : words[-1].end])


def referred(expressions: Iterator[Expression]) -> dict[Reference, int]:
    """Return all that some expressions ask, numbered."""
    found: dict[Reference, int] = {}
    for expression in expressions:
        for reference in expression.references:
            found.setdefault(reference, len(found))
    return found
