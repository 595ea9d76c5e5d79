"""Predicates of SQL: read as Spark understands them, found by the values that they ask for."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mainstem_operators_search.index import Document, Index
from mainstem_operators_search.predicate import PredicateReader

TYPES = {
    "n": "int", "price": "decimal(5,2)", "f": "float", "d": "double", "s": "string", "open": "boolean",
    "day": "date", "at": "timestamp", "odd name": "bigint",
}  # fmt: skip
READER = PredicateReader(TYPES)
DAYS = [date(2026, 1, day) for day in (1, 2, 3)]
TIMES = [datetime(2026, 1, day, 12, tzinfo=UTC) for day in (1, 2)]
TEXTS = ["", "a", "ab", "B", "100%", "a_b", "it's", "é\nz", "aX%", "ax1", "ΑΣ", "ας"]
_COMPARED = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"])


def constants(kind):
    if kind == "string":
        quoted = [json.dumps(t).replace('"', "'") if "'" not in t else '"it\'s"' for t in TEXTS]
        return st.sampled_from(quoted)
    return st.sampled_from(
        {
            "int": ["0", "1", "-2", "2.5"],
            "bigint": ["0", "7", "(7)"],
            "decimal(5,2)": ["0.50", "1", "-1.25", "0.505"],
            "float": ["0.1", "0.5", "1", "-1e0"],
            "double": ["0.1", "0.5", "1e300", "-1"],
            "boolean": ["true", "FALSE"],
            "date": ["DATE'2026-01-02'", "'2026-01-01'"],
            "timestamp": ["TIMESTAMP'2026-01-01 12:00:00'", "'2026-01-02T12:00:00Z'"],
        }[kind]
    )


def leaves():
    def of(name):
        kind, column = TYPES[name], f"`{name}`" if " " in name else name
        one = constants(kind)
        kinds = [
            st.builds("{} {} {}".format, st.just(column), _COMPARED, one),
            st.builds(
                "{2} {1} {0}".format, st.just(column), _COMPARED.filter(lambda o: o != "<=>"), one
            ),
            st.builds(
                "{} {} ({}, {})".format,
                st.just(column),
                st.sampled_from(["IN", "NOT IN"]),
                one,
                one,
            ),
            st.builds(
                "{} {} NULL".format, st.just(column), st.sampled_from(["IS", "IS NOT", "<=>"])
            ),
        ]
        if kind != "boolean":
            between = st.sampled_from(["BETWEEN", "NOT BETWEEN"])
            kinds.append(st.builds("{} {} {} AND {}".format, st.just(column), between, one, one))
        else:
            kinds += [
                st.just(column),
                st.sampled_from([f"{column} IS TRUE", f"{column} IS NOT FALSE"]),
            ]
        if kind == "string":
            like = st.sampled_from(["LIKE", "NOT LIKE", "ILIKE"])
            patterns = st.sampled_from(
                [
                    "'a%'",
                    "'%'",
                    "'_'",
                    "'b'",
                    "'100\\\\%'",
                    "'a!_b' ESCAPE '!'",
                    "'%z'",
                    "'%a%b%'",
                    "'%_%%a_'",
                    "'aX%' ESCAPE 'X'",
                    "'%Σ'",
                    "'_Σ%'",
                ]
            )
            kinds.append(st.builds("{} {} {}".format, st.just(column), like, patterns))
        return st.one_of(kinds)

    return st.sampled_from(sorted(TYPES)).flatmap(of)


def predicates():
    return st.recursive(
        leaves() | st.sampled_from(["true", "false"]),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
            st.builds("({}) IS NOT TRUE".format, inner),
        ),
        max_leaves=5,
    )


DOCUMENTS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-2, 3),
        "price": st.none() | st.sampled_from([Decimal("0.50"), Decimal("1.00"), Decimal("-1.25")]),
        "f": st.none() | st.sampled_from([0.1, 0.5, 1.0, math.nan, -math.inf]),
        "d": st.none() | st.sampled_from([0.1, 0.5, -0.0, math.nan, math.inf]),
        "s": st.none() | st.sampled_from(TEXTS),
        "open": st.none() | st.booleans(),
        "day": st.none() | st.sampled_from(DAYS),
        "at": st.none() | st.sampled_from(TIMES),
        "odd name": st.none() | st.integers(6, 8),
    }
)


def as_told(frame):
    """Return documents as the operator has them, from rows of Spark's."""
    import polars as pl

    rows = pl.from_arrow(frame.toArrow())
    times = [name for name, kind in rows.schema.items() if kind.is_temporal()]
    return rows.with_columns(rows.select(times).select(pl.all().to_physical())).to_dicts()


@pytest.mark.in_turn
@example(
    texts=[
        f"s {like} {pattern}"
        for like in ("LIKE", "NOT LIKE", "ILIKE")
        for pattern in ("'aX%' ESCAPE 'X'", "'AX%'", "'%Σ'", "'_Σ%'", "'ΑΣ'", "'%A%b%'", "'%_%%a_'")
    ],
    documents=[{**dict.fromkeys(TYPES), "s": text} for text in TEXTS],
)
@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(predicates(), min_size=60, max_size=60),
    documents=st.lists(DOCUMENTS, min_size=25, max_size=25),
)
def test_documents_match_where_spark_finds_a_predicate_true(spark, texts, documents):
    """Pass: for any predicates and documents, with nulls and NaN, by each alone and by all together."""
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in TYPES.items())
    rows = [tuple(each[name] for name in TYPES) for each in documents]
    frame = spark.createDataFrame(rows, ddl).coalesce(1)
    asked = [f"coalesce({text}, false) AS q{at}" for at, text in enumerate(texts)]
    found = frame.selectExpr(*asked).collect()
    index = Index([READER.read(text) for text in texts])
    for row, document in zip(found, as_told(frame), strict=True):
        expected = [at for at in range(len(texts)) if row[at]]
        assert index.matching(Document(document, [])) == expected, document


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it asks for nothing"),
        ("n >", "no predicate of SQL"),
        ("n > 1; s = 'a'", "not read here"),
        ("SELECT 1", "not read here"),
        ("x = 1", "there is no column x to search; there are: at, d"),
        ("t.n = 1", "no column of documents"),
        ("n + 1 = 2", "no column of documents"),
        ("n = f", "no constant"),
        ("n = 'a'", "n is INT, which 'a' is not"),
        ("s = 5", "s is STRING, which 5 is not"),
        ("n = NULL", "no constant"),
        ("n IN (1, NULL)", "no constant"),
        ("n IN (SELECT 1)", "IN takes a list"),
        ("day = 'soon'", "day is DATE, which 'soon' is not"),
        ("day = TIMESTAMP'2026-01-01 00:00:00'", "day is DATE"),
        ("n", "n is INT, and no condition"),
        ("n LIKE '1%'", "n is INT, and no text"),
        ("s LIKE n", "LIKE takes a text"),
        ("s LIKE 'a\\\\b'", "stands before"),
        ("s RLIKE 'a'", "not read here"),
        ("s = 'it''s'", "no constant"),
        ("upper(s) = 'A'", "no column of documents"),
        ("(" * 60 + "n = 1" + ")" * 60, "within each other"),
        ("(" * 20_000 + "n", "SQL|within each other"),
        (" AND ".join(["n = 1"] * 5_000), "more than 1,000 parts"),
        ("n = " + "1" * 60_000, "more than 50,000 characters"),
        ("n = 1e", "DOUBLE"),
        ("n < 1e99999999999999999999", "DOUBLE"),
        ("price = 1e1", "DOUBLE"),
        ("n = " + "1" * 39, "more than 38 digits"),
        ("d = 1e400", "larger than any DOUBLE"),
        ("day = '20260101'", "as it is read here"),
        ("day = '2026-W01-4'", "as it is read here"),
        ("at = '2026-01-01X12:00:00'", "as it is read here"),
        ("open = -true", "open is BOOLEAN"),
        ("s = -'a'", "s is STRING"),
        ("s LIKE 'a' ESCAPE ''", "one character"),
        ("s LIKE 'a' ESCAPE '!!'", "one character"),
        ("n = 1;", "a statement"),
    ],
)
def test_what_can_not_be_read_is_told(text, told):
    """Pass: why, and nothing ends but the query."""
    with pytest.raises(ValueError, match=told):
        READER.read(text)


@given(
    pattern=st.text("ab%_", max_size=8),
    texts=st.lists(st.text("ab\n", max_size=9), min_size=1, max_size=9),
)
def test_like_is_what_it_says(pattern, texts):
    """Pass: beside a plain matcher, for any patterns and texts."""

    def plain(pattern, text):
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(plain(pattern[1:], text[at:]) for at in range(len(text) + 1))
        return bool(text) and pattern[0] in ("_", text[0]) and plain(pattern[1:], text[1:])

    index = Index([READER.read(f"s LIKE '{pattern}'")])
    for text in texts:
        assert index.matching(Document({"s": text}, [])) == [0] * plain(pattern, text)


def test_a_pattern_does_not_look_for_ever():
    """Pass: one that others would try in all ways is done at once, and finds nothing."""
    index = Index([READER.read("s LIKE '" + "%a" * 200 + "%b'")])
    assert index.matching(Document({"s": "a" * 3_000}, [])) == []


def test_many_parts_are_asked_for():
    """Pass: as many as a query may have, one beside the other."""
    index = Index([READER.read(" OR ".join(f"n = {n}" for n in range(900)))])
    assert index.matching(Document({"n": 899}, [])) == [0]
    assert index.matching(Document({"n": 900}, [])) == []


def test_predicates_are_found_by_the_values_that_they_ask_for():
    """Pass: of many with equalities only those are looked at whose values a document has."""
    texts = [f"n = {n} AND price > 0 AND s = '{n % 7}'" for n in range(2_000)]
    index = Index([READER.read(text) for text in texts])
    looked = []
    index._tests = [lambda _, at=at: looked.append(at) or True for at in range(len(texts))]
    document = dict.fromkeys(TYPES) | {"n": 77, "s": "0"}
    assert index.matching(Document(document, [])) == [77]
    assert looked == [77]


@pytest.mark.in_turn
def test_a_document_finds_its_predicates(pipeline):
    """Pass: through a pipeline; one that can't be read is refused."""
    place = pipeline.folder / "queries"
    place.mkdir()
    lines = [
        (1, "city = 'Rome' AND price < 10"),
        (2, "NOT price > 5"),
        (3, "price ** 2"),
        (4, "city IS NULL"),
    ]
    told = "".join(json.dumps({"id": n, "query": text, "at": 1}) + "\n" for n, text in lines)
    (place / "0.jsonl").write_text(told)
    rows = [
        {"doc": 0, "city": "Rome", "price": 9.5},
        {"doc": 1, "price": 5},
        {"doc": 2, "city": "Bari"},
    ]
    pipeline.feed("0.jsonl", rows)
    given = {"format": "jsonlines", "path": "./in", "schema": "doc INT, city STRING, price DOUBLE"}
    asked = {
        "format": "jsonlines",
        "path": "./queries",
        "schema": "id INT, query STRING, at BIGINT",
    }
    table = {"use": "changelog", "from": "lines", "with": {"key": ["id"], "sequence": "at"}}
    found = {
        "use": "percolate",
        "from": {"input": "docs", "queries": "asked"},
        "with": {"language": "sql"},
    }
    pipeline.document(
        sources={"docs": {"use": "files", "with": given}, "lines": {"use": "files", "with": asked}},
        operators={"asked": table, "found": found},
        sinks={"out": pipeline.sink("out", "found"), "bad": pipeline.sink("bad", "found.rejected")},
    ).run()
    matches = {row["doc"]: row["matches"] for row in pipeline.rows("out")}
    assert matches == {0: [1], 1: [2, 4], 2: []}
    (refused,) = pipeline.rows("bad")
    assert refused["reason"].startswith("query 3: ")
