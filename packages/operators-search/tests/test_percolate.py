"""Queries that are read, found by their words, and come and go."""

from __future__ import annotations

import json
import struct

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem import DocumentError
from mainstem_keyed_state import KEY, Step
from mainstem_keyed_state.changes import DELETED, SEQUENCE
from mainstem_keyed_state.testing import Driver
from mainstem_operators_search.index import Document, Index
from mainstem_operators_search.percolate_logic import QUERIES, TEXT, PercolateLogic
from mainstem_operators_search.query import Reader
from mainstem_operators_search.words import words
from search_cases import TYPES, documents, matches, queries

READER = Reader({**TYPES, "d": "double", "f": "float", "wind.max": "int"}, ["title", "body"])


@settings(deadline=None, max_examples=300)
@given(texts=st.lists(queries(), min_size=1, max_size=12), document=documents())
def test_a_document_finds_what_each_query_by_itself_says(texts, document):
    """Pass: for any queries, however they are found by their words."""
    asked = [READER.read(text) for text in texts]
    found = Index(asked).matching(Document(document, ["title", "body"]))
    assert found == [at for at, query in enumerate(asked) if matches(query, document)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it asks for nothing"),
        ("   ", "it asks for nothing"),
        ("(a", "a parenthesis is not closed"),
        ("a)", "a parenthesis is closed that was not opened"),
        ("AND", "something is missing before AND"),
        ("a OR", "something is missing"),
        ("NOT", "something is missing"),
        ("()", "something is missing"),
        ("x:y", "there is no column x to search; there are: body, d, day"),
        ("n:abc", "n is INT, which 'abc' is not"),
        ("n:6*", "n is INT, and has no beginnings"),
        ("day:[2026-01-01 TO soon]", "day is DATE, which 'soon' is not"),
        ('"..."', "'...' has no word"),
        ("a " * 1001, "more than 1,000 parts"),
        ("(" * 60 + "a" + ")" * 60, "parts within each other"),
        ("title:" * 998 + "x", "parts within each other"),
        ("(x:[" * 20_000, "more than"),
        ("n:[1 TO NaN]", "n is INT, which 'NaN' is not"),
        ("price:sNaN", "price is DECIMAL.5,1., which 'sNaN' is not"),
        ("d:>nan", "d is DOUBLE, which 'nan' is not"),
        ("st*rm", "put a text into quotes"),
        ("*orm", "put a text into quotes"),
        ("storm~", "put a text into quotes"),
        ("storm^2", "put a text into quotes"),
        ("title: storm", "put a text into quotes"),
        ("2m:>5", "put a text into quotes"),
        ("title:>= N", "put a text into quotes"),
        ("-" * 60 + "a", "parts within each other"),
    ],
)
def test_what_can_not_be_read_is_told(text, told):
    with pytest.raises(ValueError, match=told):
        READER.read(text)


@pytest.mark.parametrize(
    ("text", "document", "found"),
    [
        ("n:-5", {"n": -5}, True),
        ("n:-5", {"n": None}, False),
        ("-n:5", {"n": None}, True),
        ("n:>-5 n:<1e999", {"n": 0}, True),
        ("f:0.1", {"f": struct.unpack("f", struct.pack("f", 0.1))[0]}, True),
        ("`wind.max`:>60", {"wind.max": 61}, True),
        ("TITLE:x", {"title": "X"}, True),
        ("storm*", {"title": "storm"}, True),
        ("storm*", {"title": "stor"}, False),
        ("day:>=9999-12-31", {"day": 3_000_000}, True),
        ("title:cafe", {"title": "cafe\u0301"}, False),
        ("title:caf\u00e9", {"title": "cafe\u0301"}, True),
        ("\u039f\u0394\u039f\u03a3*", {"title": "\u03bf\u03b4\u03bf\u03c3\u03b1"}, True),
    ],
)
def test_what_queries_mean(text, document, found):
    """Pass: negative numbers, single fractions, names in backticks, days beyond Python's, composed letters."""
    row = dict.fromkeys([*TYPES, "d", "f", "wind.max"]) | document
    assert bool(Index([READER.read(text)]).matching(Document(row, ["title", "body"]))) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\u0939\u093f\u0928\u094d\u0926\u0940 x", ["\u0939\u093f\u0928\u094d\u0926\u0940", "x"]),
        ("Don't STOP: it's 3.14", ["don't", "stop", "it's", "3.14"]),
        ("U.S.A. x:y a-b c++ #tag", ["u.s.a", "x:y", "a", "b", "c", "tag"]),
        ("1,000; 2.5, end.", ["1,000", "2.5", "end"]),
        ("東京 ist état", ["東", "京", "ist", "état"]),
        ("foo_bar 'quoted'", ["foo_bar", "quoted"]),
        ("", []),
    ],
)
def test_texts_are_words(text, found):
    assert words(text) == found


ROWS = pl.Schema({"title": pl.String(), "n": pl.Int64()})
PORT = pl.Schema(
    {
        "id": pl.Int64(),
        TEXT: pl.String(),
        "_commit_version": pl.Int64(),
        SEQUENCE: pl.Int64(),
        DELETED: pl.Boolean(),
    }
)


def driver():
    logic = PercolateLogic(
        ROWS,
        PORT,
        key="id",
        types={"title": "string", "n": "bigint"},
        fields=["title"],
        matches="matches",
    )
    return Driver(logic, {"input": ["title"], QUERIES: ["id"]}, pages=2)


def query(id, text, sequence, gone=False):  # noqa: A002
    given = {"id": id, TEXT: text, "_commit_version": sequence}
    return {**given, SEQUENCE: sequence, DELETED: gone}


def asked(run, *titles):
    rows = [{"title": title, "n": n} for n, title in enumerate(titles)]
    return {row["title"]: row["matches"] for row in run.batch({"input": rows})[""]}


def test_queries_come_and_go():
    """Pass: from their batch on; an older change has no effect; what can't be read is none, and is told."""
    run = driver()
    assert asked(run, "storm") == {"storm": []}
    run.batch({QUERIES: [query(1, "storm", 5), query(2, "gale OR storm", 5), query(3, "n:0", 5)]})
    assert asked(run, "storm", "gale", "calm") == {"storm": [1, 2, 3], "gale": [2], "calm": []}
    run.batch({QUERIES: [query(1, "calm", 6), query(2, "nothing", 4), query(3, "", 6)]})
    run.restart()
    assert asked(run, "storm", "calm") == {"storm": [2], "calm": [1]}
    (refused,) = run.outputs["rejected"]
    assert refused["reason"] == "query 3: it asks for nothing"
    run.batch({QUERIES: [query(1, None, 7, gone=True), query(2, "storm (", 9)]})
    assert asked(run, "storm", "calm") == {"storm": [], "calm": []}
    assert run.outputs["rejected"][1]["payload"] == b"storm ("


def document(pipeline, key=("id",), **options):
    read = {"format": "jsonlines", "max_files": 1}
    given = {"path": "./in", "schema": "doc INT, title STRING, n INT", **read}
    lines = {"path": "./queries", "schema": "id INT, query STRING, at BIGINT", **read}
    percolate = {"use": "percolate", "from": {"input": "docs", "queries": "asked"}, "with": options}
    return pipeline.document(
        sources={"docs": {"use": "files", "with": given}, "lines": {"use": "files", "with": lines}},
        operators={
            "asked": {
                "use": "changelog",
                "from": "lines",
                "with": {"key": [*key], "sequence": "at"},
            },
            "found": percolate,
        },
        sinks={
            "out": pipeline.sink("out", "found"),
            "bad": pipeline.sink("bad", "found.rejected"),
        },
    )


@pytest.mark.in_turn
def test_a_document_finds_its_queries(pipeline):
    """Pass: the queries are there before the first document; in another run new ones are too."""
    place = pipeline.folder / "queries"
    place.mkdir()

    def ask(name, *lines):
        (place / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    ask("0.jsonl", {"id": 1, "query": "storm", "at": 1}, {"id": 2, "query": "n:>1", "at": 1})
    pipeline.feed("0.jsonl", [{"doc": 0, "title": "Storm!", "n": 5}, {"doc": 1, "title": None}])
    document(pipeline).run()
    ask("1.jsonl", {"id": 3, "query": "calm AND (", "at": 1}, {"id": 2, "query": "calm", "at": 2})
    document(pipeline).run()
    pipeline.feed("1.jsonl", [{"doc": 2, "title": "the calm", "n": 5}])
    document(pipeline).run()
    found = {row["doc"]: row["matches"] for row in pipeline.rows("out")}
    assert found == {0: [1, 2], 1: [], 2: [2]}
    (refused,) = pipeline.rows("bad")
    assert refused["reason"] == "query 3: something is missing"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"query": "text"}, "there is no column 'text'"),
        ({"fields": ["n"]}, "n is INT, and no text"),
        ({"matches": "title"}, "the name 'title' is taken"),
        ({"key": ("id", "query")}, "queries have one key column"),
    ],
)
def test_wrong_documents_are_told(pipeline, options, told):
    """Pass: before anything runs."""
    with pytest.raises(DocumentError, match=told):
        document(pipeline, **options).plan()


def test_indices_are_told_apart_by_the_type_of_their_keys():
    """Pass: two operators over the same documents, whose queries have keys of other types."""
    for kind in (pl.Int64(), pl.String(), pl.Int32()):
        port = pl.Schema({**PORT, "id": kind})
        made = PercolateLogic(
            ROWS, port, key="id", types={"title": "string"}, fields=["title"], matches="matches"
        )
        run = Driver(made, {"input": ["title"], QUERIES: ["id"]})
        assert asked(run, "storm") == {"storm": []}


def test_days_beyond_pythons_end_nothing():
    """Pass: also where no query asks for them."""
    rows = pl.Schema({"title": pl.String(), "day": pl.Date()})
    made = PercolateLogic(
        rows,
        PORT,
        key="id",
        types={"title": "string", "day": "date"},
        fields=["title"],
        matches="matches",
    )
    state = pl.DataFrame(schema={KEY: pl.Binary(), **made.tables[QUERIES].columns})
    frame = pl.DataFrame(
        {"title": ["x"], "day": pl.Series([4_000_000], dtype=pl.Int32).cast(pl.Date)}
    )
    frame = frame.with_columns(pl.lit(b"", pl.Binary).alias(KEY))
    done = made.step(Step({"input": frame}, {QUERIES: state}, None))
    assert done.outputs[""]["matches"].to_list() == [[]]
