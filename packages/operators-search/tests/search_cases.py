"""Random queries and documents, and what matches by looking at each by itself."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from hypothesis import strategies as st
from mainstem_operators_search.query import And, Not, Or, Phrase, Range
from mainstem_operators_search.words import words

TYPES = {"title": "string", "body": "string", "n": "int", "price": "decimal(5,1)", "day": "date"}
WORDS = ["storm", "stormy", "gale", "wind", "windy", "w"]
PLAIN = st.sampled_from(WORDS)
DAYS = [date(2026, 1, day) for day in (1, 2, 3)]


def days(day):
    """Return a day as it is compared."""
    return (day - date(1970, 1, 1)).days


def leaves():
    word = st.one_of(PLAIN, PLAIN.map(lambda each: each[:3] + "*"))
    phrase = st.lists(PLAIN, min_size=2, max_size=3).map(lambda each: f'"{" ".join(each)}"')
    field = st.sampled_from(["", "", "title:", "body:"])
    text = st.builds("{}{}".format, field, st.one_of(word, phrase, phrase.map(lambda p: p + "*")))
    bound = st.one_of(st.integers(0, 4).map(str), st.just("*"))
    number = st.builds(
        "{}:{}{} TO {}{}".format,
        st.sampled_from(["n", "price"]),
        st.sampled_from("[{"),
        bound,
        bound,
        st.sampled_from("]}"),
    )
    least = st.builds(
        "n:{}{}".format, st.sampled_from([">", ">=", "<", "<=", ""]), st.integers(0, 4)
    )
    day = st.sampled_from(DAYS).map(lambda each: f"day:{each}")
    return st.one_of(text, text, text, number, least, day)


def queries():
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds("({} {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("({} -{})".format, inner, inner),
            st.builds("NOT {}".format, inner),
            st.builds("title:({} OR {})".format, PLAIN, PLAIN),
        ),
        max_leaves=5,
    )


def documents():
    text = st.none() | st.lists(PLAIN, max_size=6).map(" ".join)
    return st.fixed_dictionaries(
        {
            "title": text,
            "body": text,
            "n": st.none() | st.integers(0, 4),
            "price": st.none() | st.integers(0, 8).map(lambda half: Decimal(half) / 2),
            "day": st.none() | st.sampled_from(DAYS).map(days),
        }
    )


def matches(query, document):
    """Whether a document matches, by what the query says, word for word."""
    if isinstance(query, And):
        return all(matches(part, document) for part in query.parts)
    if isinstance(query, Or):
        return any(matches(part, document) for part in query.parts)
    if isinstance(query, Not):
        return not matches(query.part, document)
    if isinstance(query, Range):
        value = document[query.field]
        if value is None:
            return False
        low = (
            query.least is None or value > query.least or (value == query.least and not query.above)
        )
        high = (
            query.greatest is None
            or value < query.greatest
            or (value == query.greatest and not query.below)
        )
        return low and high
    assert isinstance(query, Phrase)
    for field in query.fields:
        there = words(document[field] or "")
        for at in range(len(there) - len(query.words) + 1):
            part = there[at : at + len(query.words)]
            if query.prefix and part[-1].startswith(query.words[-1]):
                part[-1] = query.words[-1]
            if part == [*query.words]:
                return True
    return False
