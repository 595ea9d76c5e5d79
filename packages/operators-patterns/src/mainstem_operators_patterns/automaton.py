"""A pattern as an automaton: places, and from each the places that may follow, the preferred first."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem_operators_patterns.pattern import (
    MOST,
    Between,
    Choice,
    Node,
    Pattern,
    Repeat,
    Sequence,
    Variable,
)

#: Stands for the end among what may follow.
END = -1


@dataclass(frozen=True)
class Place:
    """A row of the pattern.

    Attributes:
        name: the variable that the row is of; of rows between others the one that they must not be of.
        between: whether it is a row between others.
        hidden: whether the row is left out of what comes out.
        follows: the places that may come next and are preferred to the end, the preferred first.
        ends: whether the match may end here.
        later: the places that may come next where it does not end here after all.
    """

    name: str | None
    between: bool
    hidden: bool
    follows: tuple[int, ...]
    ends: bool
    later: tuple[int, ...]


@dataclass(frozen=True)
class Automaton:
    """All places; `begins` are those of a first row, the preferred first."""

    places: tuple[Place, ...]
    begins: tuple[int, ...]

    def mermaid(self) -> str:
        """Return a picture of it, as Mermaid has it."""
        lines = ["stateDiagram-v2"]
        for number, place in enumerate(self.places):
            label = place.name or "any"
            label = (f"not {label}" if place.name else "any row") if place.between else label
            lines.append(f"    s{number}: {label}")
        lines += [f"    [*] --> s{number}" for number in self.begins]
        for number, place in enumerate(self.places):
            lines += [f"    s{number} --> s{follower}" for follower in place.follows]
            if place.ends:
                lines.append(f"    s{number} --> [*]")
            lines += [f"    s{number} --> s{follower}" for follower in place.later]
        return "\n".join(lines) + "\n"


class UnfitPatternError(ValueError):
    """A pattern that has no automaton: it needs no row, begins between rows, or has too many."""


def compiled(pattern: Pattern) -> Automaton:
    """Return a pattern's automaton.

    Raises:
        UnfitPatternError: there is none.
    """
    builder = _Builder()
    begin = builder.state()
    end = builder.add(pattern.node, begin)
    builder.last = end
    begins = builder.closure(begin)
    if END in begins:
        raise UnfitPatternError(
            "the pattern matches no row at all: let one variable be there at least"
        )
    if any(builder.rows[place][1] for place in begins):
        raise UnfitPatternError(
            "the pattern can begin with rows between others: let one variable be before"
        )
    places = []
    for name, between, hidden, target in builder.rows:
        follows = builder.closure(target)
        ends = END in follows
        at = follows.index(END) if ends else len(follows)
        before, later = tuple(follows[:at]), tuple(follows[at + 1 :])
        if between:  # with the rows before it, it might have ended earlier
            before, ends, later = before + later, False, ()
        places.append(Place(name, between, hidden, before, ends, later))
    return Automaton(tuple(places), tuple(begins))


class _Builder:
    """States with ways on without a row, in their order, and rows between states."""

    def __init__(self) -> None:
        #: By state the rows and next states, with what kind of a way it is there: see `closure`.
        self._ways: list[list[tuple[str, int]]] = []
        self.rows: list[tuple[str | None, bool, bool, int]] = []
        self.last = 0

    def state(self) -> int:
        """Return a new state."""
        self._ways.append([])
        return len(self._ways) - 1

    def _row(self, start: int, name: str | None, *, between: bool, hidden: bool) -> int:
        if len(self.rows) >= MOST:
            raise UnfitPatternError(
                f"the pattern has more than {MOST} rows, with its quantities written out"
            )
        end = self.state()
        self.rows.append((name, between, hidden, end))
        self._ways[start].append(("row", len(self.rows) - 1))
        return end

    def _on(self, start: int, end: int, kind: str = "state") -> None:
        self._ways[start].append((kind, end))

    def add(self, node: Node, start: int) -> int:
        """Add a node behind a state; return the state behind it."""
        if isinstance(node, Variable):
            return self._row(start, node.name, between=False, hidden=node.hidden)
        if isinstance(node, Between):
            # As few as can be: first on, then a row.
            end, again = self.state(), self.state()
            self._on(start, again)
            self._on(again, end)
            behind = self._row(again, node.unless, between=True, hidden=True)
            self._on(behind, again)
            return end
        if isinstance(node, Sequence):
            for item in node.items:
                start = self.add(item, start)
            return start
        if isinstance(node, Choice):
            end = self.state()
            for option in node.options:
                begin = self.state()
                self._on(start, begin)
                self._on(self.add(option, begin), end)
            return end
        return self._repeat(node, start)

    def _repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self.add(node.item, start)
        end = self.state()
        if node.most is None:
            again, begin = self.state(), self.state()
            self._on(start, again, "enter")
            ways = (("begin", begin), ("leave", end))
            for kind, target in ways if node.greedy else reversed(ways):
                self._on(again, target, kind)
            self._on(self.add(node.item, begin), again, "back")
            return end
        for _ in range(node.most - node.least):
            begin = self.state()
            self._both(start, begin, end, greedy=node.greedy)
            start = self.add(node.item, begin)
        self._on(start, end)
        return end

    def _both(self, start: int, more: int, end: int, *, greedy: bool) -> None:
        for target in (more, end) if greedy else (end, more):
            self._on(start, target)

    def closure(self, start: int) -> list[int]:
        """Return the rows that can come next, the preferred first; `END` among them where it may end.

        A repetition without end that would go round without a row goes no way at all. One that began
        before the last row has one; and what is in it may start over with each round of it.
        """
        found: dict[int, None] = {}
        seen: set[tuple[int, frozenset[int]]] = set()
        #: States, with the repetitions whose round began since the last row, and rows, with None.
        left: list[tuple[int, frozenset[int] | None]] = [(start, frozenset())]
        while left:
            state, begun = left.pop()
            if begun is None:
                found.setdefault(state)
                continue
            if (state, begun) in seen:
                continue
            seen.add((state, begun))
            if state == self.last:
                found.setdefault(END)
            # Depth first, in order.
            for kind, target in reversed(self._ways[state]):
                if kind == "row":
                    left.append((target, None))
                elif kind == "begin":
                    left.append((target, begun | {state}))
                elif kind in ("enter", "leave"):
                    left.append((target, begun - {target if kind == "enter" else state}))
                elif kind != "back" or target not in begun:
                    left.append((target, begun))
        return list(found)
