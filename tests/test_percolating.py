"""`percolate` beside OpenSearch's percolator: the same queries, the same documents."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta

import pytest
from mainstem_operators_search.index import Document, Index
from mainstem_operators_search.query import And, Not, Or, Phrase, Range, Reader

TYPES = {"title": "string", "body": "string", "n": "int", "day": "date"}
FIRST = date(1970, 1, 1)
WORDS = ["storm", "stormy", "gale", "wind", "u.s.a", "don't", "3.14", "état", "foo_bar", "x2"]


def texts(dice, count):
    """Return random queries."""

    def leaf():
        word = dice.choice(WORDS)
        kind = dice.randrange(6)
        field = dice.choice(["", "title:", "body:"])
        if kind == 0:
            return f'{field}"{word} {dice.choice(WORDS)}"'
        if kind == 1:
            return f"{field}{word[:3]}*" if word[2:3].isalpha() else field + word
        if kind == 2:
            return f"n:[{dice.randrange(5)} TO {dice.randrange(8)}}}"
        if kind == 3:
            return f"day:>=2026-01-0{dice.randrange(1, 5)}"
        return field + word

    def query(depth):
        if depth == 0 or dice.random() < 0.3:
            return leaf()
        one, two = query(depth - 1), query(depth - 1)
        return dice.choice([f"({one} {two})", f"({one} OR {two})", f"({one} -{two})"])

    return [query(3) for _ in range(count)]


def rows(dice, count):
    """Return random documents."""
    marks = [" ", ", ", "! ", " - ", " (", ". "]

    def text():
        parts = [dice.choice(WORDS) for _ in range(dice.randrange(7))]
        return "".join(dice.choice([p, p.upper(), p.title()]) + dice.choice(marks) for p in parts)

    return [
        {
            "title": text(),
            "body": dice.choice([None, text()]),
            "n": dice.choice([None, dice.randrange(6)]),
            "day": dice.choice([None, date(2026, 1, dice.randrange(1, 6))]),
        }
        for _ in range(count)
    ]


def theirs(query):
    """Return a query as the node has it."""
    if isinstance(query, And):
        return {"bool": {"must": [theirs(part) for part in query.parts]}}
    if isinstance(query, Or):
        return {
            "bool": {"should": [theirs(part) for part in query.parts], "minimum_should_match": 1}
        }
    if isinstance(query, Not):
        return {"bool": {"must_not": [theirs(query.part)]}}
    if isinstance(query, Range):
        bounds = {}
        day = query.field == "day"
        least, greatest = (
            str(FIRST + timedelta(days=int(bound))) if day and bound is not None else bound
            for bound in (query.least, query.greatest)
        )
        if least is not None:
            bounds["gt" if query.above else "gte"] = str(least)
        if greatest is not None:
            bounds["lt" if query.below else "lte"] = str(greatest)
        return {"range": {query.field: bounds}}
    assert isinstance(query, Phrase)
    if query.prefix and len(query.words) == 1:
        each = [{"prefix": {field: query.words[0]}} for field in query.fields]
        return {"bool": {"should": each, "minimum_should_match": 1}}
    kind = "match_phrase_prefix" if query.prefix else "match_phrase"
    more = {"max_expansions": 1000} if query.prefix else {}
    each = [{kind: {field: {"query": " ".join(query.words), **more}}} for field in query.fields]
    return {"bool": {"should": each, "minimum_should_match": 1}}


@pytest.mark.in_turn
def test_documents_find_what_opensearch_finds(opensearch):
    """Pass: 300 queries and 120 documents, all pairs."""
    dice = random.Random(7)
    asked, given = texts(dice, 300), rows(dice, 120)
    reader = Reader(TYPES, ["title", "body"])
    read = [reader.read(text) for text in asked]
    index = Index(read)
    properties = {
        "query": {"type": "percolator"},
        "title": {"type": "text"},
        "body": {"type": "text"},
        "n": {"type": "integer"},
        "day": {"type": "date"},
    }
    opensearch.ask("PUT", "/percolating", {"mappings": {"properties": properties}})
    for number, query in enumerate(read):
        opensearch.ask("PUT", f"/percolating/_doc/{number}", {"query": theirs(query)})
    opensearch.ask("POST", "/percolating/_refresh")
    pairs = 0
    for row in given:
        document = json.loads(json.dumps(row, default=str))
        body = {
            "size": 1000,
            "_source": False,
            "query": {"percolate": {"field": "query", "document": document}},
        }
        hits = opensearch.ask("POST", "/percolating/_search", body)["hits"]["hits"]
        found = sorted(int(hit["_id"]) for hit in hits)
        day = None if row["day"] is None else (row["day"] - FIRST).days
        mine = index.matching(Document({**row, "day": day}, ["title", "body"]))
        wrong = [asked[at] for at in {*mine} ^ {*found}]
        assert mine == found, (row, wrong)
        pairs += len(mine)
    assert pairs > 1000
