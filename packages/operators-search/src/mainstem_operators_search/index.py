"""Many queries, by the words and values without which they can't match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mainstem_operators_search.query import And, Like, Not, Null, Or, Phrase, Query, Range
from mainstem_operators_search.words import words


class _Value(NamedTuple):
    """The value of a column; a tuple of three, so that it equals no word."""

    field: str
    value: Any
    kind: str = "value"


#: A word in a column; or, with `*`, the beginning of one; or a value.
_Anchor = tuple[str, str] | _Value
Test = Callable[["Document"], bool]


class Document:
    """A row that is looked at.

    Args:
        values: its columns.
        texts: those whose words are searched.
    """

    def __init__(self, values: Mapping[str, Any], texts: Sequence[str]) -> None:
        self.values = values
        self.places: dict[str, dict[str, list[int]]] = {}
        for name in texts:
            found: dict[str, list[int]] = {}
            for place, word in enumerate(words(values[name] or "")):
                found.setdefault(word, []).append(place)
            self.places[name] = found


class Index:
    """Queries that can be asked for by documents.

    Args:
        queries: by their place.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        often: Counter[_Anchor] = Counter()
        for query in queries:
            often.update(_all_anchors(query))
        self._tests = [_test(query) for query in queries]
        self._by_word: dict[tuple[str, str], list[int]] = {}
        self._by_beginning: dict[tuple[str, str], list[int]] = {}
        self._by_value: dict[str, dict[Any, list[int]]] = {}
        self._always: list[int] = []
        for place, query in enumerate(queries):
            anchors = _anchors(query, often)
            if anchors is None:
                self._always.append(place)
                continue
            for anchor in anchors:
                if isinstance(anchor, _Value):
                    by_value = self._by_value.setdefault(anchor.field, {})
                    by_value.setdefault(anchor.value, []).append(place)
                elif anchor[1].endswith("*"):
                    self._by_beginning.setdefault((anchor[0], anchor[1][:-1]), []).append(place)
                else:
                    self._by_word.setdefault(anchor, []).append(place)
        self._lengths = sorted({len(beginning) for _, beginning in self._by_beginning})

    def matching(self, document: Document) -> list[int]:
        """Return the places of the queries that a document matches, in their order."""
        found = set(self._always)
        for field, places in document.places.items():
            for word in places:
                found.update(self._by_word.get((field, word), ()))
                for length in self._lengths:
                    if length > len(word):
                        break
                    found.update(self._by_beginning.get((field, word[:length]), ()))
        for field, by_value in self._by_value.items():
            found.update(by_value.get(document.values[field], ()))
        return sorted(place for place in found if self._tests[place](document))


def _all_anchors(query: Query) -> Iterator[_Anchor]:
    """Yield all words of a query, for how often each is asked for."""
    if isinstance(query, Phrase):
        for field in query.fields:
            for number, word in enumerate(query.words, 1):
                star = "*" if query.prefix and number == len(query.words) else ""
                yield field, word + star
    elif isinstance(query, Range) and _exact(query):
        yield _Value(query.field, query.least)
    elif isinstance(query, And | Or):
        for part in query.parts:
            yield from _all_anchors(part)


def _anchors(query: Query, often: Mapping[_Anchor, int]) -> set[_Anchor] | None:
    """Return words of which a document must have one to match; None if it may have none of any."""
    if isinstance(query, Phrase):
        found: set[_Anchor] = set()
        for field in query.fields:
            ends = len(query.words) - 1
            marked: list[_Anchor] = [
                (field, word + ("*" if query.prefix and n == ends else ""))
                for n, word in enumerate(query.words)
            ]
            found.add(min(marked, key=lambda each: _cost({each}, often)))
        return found
    if isinstance(query, Range):
        return {_Value(query.field, query.least)} if _exact(query) else None
    if isinstance(query, And):
        parts = [each for part in query.parts if (each := _anchors(part, often)) is not None]
        return min(parts, key=lambda each: _cost(each, often)) if parts else None
    if isinstance(query, Or):
        every: set[_Anchor] = set()
        for part in query.parts:
            own = _anchors(part, often)
            if own is None:
                return None
            every |= own
        return every
    return None


def _exact(query: Range) -> bool:
    """Whether one value alone matches."""
    return query.least is not None and query.least == query.greatest


def _cost(anchors: set[_Anchor], often: Mapping[_Anchor, int]) -> tuple[int, int]:
    """Return how often documents may have one of these: whole, long, seldom asked for words least."""
    stars = sum(not isinstance(a, _Value) and a[1].endswith("*") for a in anchors)
    return (stars + len(anchors), sum(often[anchor] for anchor in anchors))


def _test(query: Query) -> Test:
    """Return whether a document matches."""
    if isinstance(query, Phrase):
        return _phrase(query)
    if isinstance(query, Range):
        return _range(query)
    if isinstance(query, Null):
        field = query.field
        return lambda document: document.values[field] is None
    if isinstance(query, Like):
        return _like(query)
    if isinstance(query, Not):
        inner = _test(query.part)
        return lambda document: not inner(document)
    tests = [_test(part) for part in query.parts]
    wanted = isinstance(query, Or)

    # A loop, as this is what most of the time goes to.
    def several(document: Document) -> bool:
        for test in tests:
            if test(document) is wanted:
                return wanted
        return not wanted

    return several


def _phrase(query: Phrase) -> Test:
    *first, last = query.words
    fields = query.fields
    if not first and not query.prefix:

        def there(document: Document) -> bool:
            places = document.places
            for field in fields:  # noqa: SIM110
                if last in places[field]:
                    return True
            return False

        return there

    def ends(places: Mapping[str, list[int]]) -> set[int]:
        if not query.prefix:
            return set(places.get(last, ()))
        return {at for word, there in places.items() if word.startswith(last) for at in there}

    def within(places: Mapping[str, list[int]]) -> bool:
        if not first:
            return bool(ends(places))
        if any(word not in places for word in first):
            return False
        at = set(places[first[0]])
        for number, word in enumerate(first[1:], 1):
            at &= {place - number for place in places[word]}
        return bool(at & {place - len(first) for place in ends(places)}) if at else False

    def test(document: Document) -> bool:
        return any(within(document.places[field]) for field in fields)

    return test


def _range(query: Range) -> Test:
    least, greatest = query.least, query.greatest

    def test(document: Document) -> bool:
        value = document.values[query.field]
        if value is None:
            return False
        if value != value:
            return query.nan
        if least is not None and (value < least or (query.above and value == least)):
            return False
        return not (
            greatest is not None and (value > greatest or (query.below and value == greatest))
        )

    return test


def _like(query: Like) -> Test:
    pattern = re.compile(query.pattern, re.DOTALL)

    def test(document: Document) -> bool:
        value = document.values[query.field]
        if value is None:
            return False
        return pattern.fullmatch(value.lower() if query.lower else value) is not None

    return test
