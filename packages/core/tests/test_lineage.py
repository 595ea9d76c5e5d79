"""Which columns become which, from the document alone."""

from __future__ import annotations

import pytest
from mainstem import Dataset
from mainstem.lineage import Lineage
from mainstem.plan.build import make_plan

LINES = Dataset("file", "/in")
OTHERS = Dataset("file", "/others")


def lineage(operators, sink="last", **sources):
    """Return the lineage of messages of /in that go through operators into /out."""
    lines = {"use": "files", "with": {"path": "/in", "format": "message"}}
    out = {"use": "files", "from": sink, "with": {"path": "/out", "format": "parquet"}}
    return Lineage(
        make_plan(
            {
                "pipeline": "p",
                "sources": {"lines": lines, **sources},
                "operators": operators,
                "sinks": {"out": out},
            }
        )
    )


def made(found):
    """Return by column what it is made of, and look where from: all of /in unless a name says so."""
    (write,) = found.writes
    return {
        name: {
            column if dataset == LINES else f"{dataset.name}:{column}" for dataset, column in told
        }
        for name, told in write.made_of.items()
    }


def decode(above="lines", schema="city STRING, cents BIGINT", **more):
    return {"use": "decode", "from": above, "with": {"format": "json", "schema": schema, **more}}


def select(above, columns, **more):
    return {"use": "select", "from": above, "with": {"columns": columns, **more}}


def test_what_is_decoded_is_made_of_the_value_and_what_is_kept_of_what_it_names():
    """Pass: columns of the schema of `value`, those of `keep` of the columns in their SQL, case and backticks aside."""
    keep = {"k": "CAST(`Key` AS STRING)", "h": "coalesce(headers['topic'], 'value')"}
    found = lineage({"last": decode(keep=keep)})
    assert made(found) == {"city": {"value"}, "cents": {"value"}, "k": {"key"}, "h": {"headers"}}


def test_names_go_through_several_steps():
    """Pass: a new name, two columns in one, one that stands there twice, a number and a text that only look like names."""
    row = decode(keep={"at": "timestamp"})
    first = select("row", {"town": "city", "both": "concat(city, ' at ', at)", "one": "1"})
    last = select("first", {"a": "upper(town)", "b": "both || town", "c": "'town'"})
    found = lineage({"row": row, "first": first, "last": last})
    everything = {"value", "timestamp"}
    assert made(found)["a"] == {"value"}
    assert made(found)["b"] == everything
    assert made(found)["c"] == set()


def test_what_select_does_not_name_is_what_it_was():
    """Pass: with a condition alone columns stay what they are made of."""
    kept = {"use": "select", "from": "row", "with": {"where": "cents > 3"}}
    found = lineage({"row": decode(keep={"at": "timestamp"}), "last": kept})
    assert made(found) == {"city": {"value"}, "cents": {"value"}, "at": {"timestamp"}}


def test_streams_that_come_together_are_all_told():
    """Pass: a union's columns are made of those of both sources."""
    others = {"use": "files", "with": {"path": "/others", "format": "message"}}
    operators = {"one": decode(), "two": decode("others"), "last": {"use": "union", "from": ["one", "two"]}}  # fmt: skip
    assert made(lineage(operators, others=others))["city"] == {"value", "/others:value"}


def test_a_sink_of_several_streams_is_given_what_both_are_made_of():
    """Pass: by name."""
    others = {"use": "files", "with": {"path": "/others", "format": "message"}}
    found = lineage({"one": decode(), "two": decode("others")}, ["one", "two"], others=others)
    assert made(found)["cents"] == {"value", "/others:value"}


def test_whole_queries_are_made_of_all_columns_that_they_name():
    """Pass: too much rather than too little, and nothing that the query does not name."""
    query = {
        "use": "sql",
        "from": "row",
        "with": {
            "query": "SELECT city AS c, cents AS d FROM input",
            "schema": "c STRING, d BIGINT",
        },
    }
    row = decode(keep={"at": "timestamp"})
    assert made(lineage({"row": row, "last": query})) == {"c": {"value"}, "d": {"value"}}


def test_refused_rows_are_made_of_all_that_comes_in():
    """Pass: nobody says what their columns are made of."""
    found = lineage({"row": decode()}, "row.rejected")
    assert made(found)["payload"] >= {"value", "key", "headers"}


def test_what_can_not_be_named_has_the_name_of_its_node():
    """Pass: a source without a place."""
    plan = make_plan(
        {
            "pipeline": "p",
            "sources": {"ticks": {"use": "rate", "with": {"rows_per_second": 1}}},
            "sinks": {"out": {"use": "console", "from": "ticks"}},
        }
    )
    (read,), (write,) = Lineage(plan).reads, Lineage(plan).writes
    assert read.datasets == [Dataset("mainstem.rate", "p.ticks")]
    assert write.datasets == [Dataset("mainstem.console", "p.out")]
    assert write.made_of["value"] == [(read.datasets[0], "value")]


@pytest.mark.parametrize("above", ["lines", "row"])
def test_relays_are_no_part_of_it(above):
    """Pass: a document whose nodes ask for relays has the same lineage."""
    operators = {"row": decode(), "last": select("row", {"town": "city"})}
    plain = made(lineage(operators))
    given = {"use": "files", "with": {"path": "/in", "format": "message"}}
    if above == "row":
        operators["row"]["relay"] = True
    else:
        given["relay"] = True
    assert made(lineage(operators, lines=given)) == plain == {"town": {"value"}}


ROWS = {
    "use": "files",
    "with": {"path": "/in", "format": "jsonlines", "schema": "id BIGINT, city STRING, key STRING"},
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("to_json(struct(*))", {"id", "city", "key"}),
        ("id * 2", {"id"}),
        ("id -- the city's name, or the key's\n", {"id"}),
        ("concat(id, /* not the key */ r'\\', city)", {"id", "city"}),
    ],
    ids=["all", "times", "comment", "texts"],
)
def test_what_sql_names_is_found(text, wanted):
    """Pass: a star is all columns, unless it multiplies; what stands in comments and texts is no name."""
    assert made(lineage({"last": select("lines", {"x": text})}, lines=ROWS))["x"] == wanted


def test_a_query_with_a_star_is_made_of_all():
    """Pass: each column, for nobody has read the query."""
    query = {"query": "SELECT *, upper(key) AS c FROM input", "schema": "id BIGINT, c STRING"}
    found = lineage({"last": {"use": "sql", "from": "lines", "with": query}}, lines=ROWS)
    everything = {"id", "city", "key"}
    assert made(found) == {"id": everything, "c": everything}


def test_what_an_operator_computes_is_not_the_column_of_that_name():
    """Pass: an encoded row is made of all columns, though one of them is called `value`."""
    rows = {**ROWS, "with": {**ROWS["with"], "schema": "id BIGINT, value STRING"}}
    encode = {"use": "encode", "from": "lines", "with": {"format": "json"}}
    assert made(lineage({"last": encode}, lines=rows))["value"] == {"id", "value"}


def test_what_an_operator_refuses_is_not_the_column_of_that_name():
    """Pass: the payload of a refused row is the whole row, though a column is called `payload`."""
    rows = {**ROWS, "with": {**ROWS["with"], "schema": "id BIGINT, payload STRING"}}
    row = select("lines", {"n": "CAST(id AS INT)"}, on_error="reject")
    found = made(lineage({"row": row}, "row.rejected", lines=rows))
    assert found["payload"] == {"id", "payload"}


def test_changes_are_of_keys_too():
    """Pass: what tells of a table's changes reads the message's key, which a deletion has alone."""
    row = {
        "use": "decode",
        "from": "lines",
        "with": {"format": "debezium-json", "schema": "id BIGINT NOT NULL, n INT", "key": ["id"]},
    }
    assert made(lineage({"row": row}, "row"))["n"] == {"value", "key"}


def test_what_a_source_refuses_is_of_what_it_reads():
    """Pass: made of all its columns, and not of columns that nobody reads."""
    plan = lineage({"row": select("lines", {"a": "id"})}, "lines.rejected", lines=ROWS)
    assert made(plan)["payload"] == {"id", "city", "key"}
    assert [(str(read.stream), len(read.columns)) for read in plan.reads] == [("lines", 3)]


def test_what_shadows_read_is_not_read():
    """Pass: a sink that replays write alone, and what only it reads, are told nowhere."""
    lines = {"use": "files", "with": {"path": "/in", "format": "message"}}
    out = {"use": "files", "from": "lines", "with": {"path": "/out", "format": "parquet"}}
    shadow = {**out, "from": "others", "query": "replay"}
    plan = make_plan(
        {
            "pipeline": "p",
            "sources": {
                "lines": lines,
                "others": {**lines, "with": {**lines["with"], "path": "/x"}},
            },
            "sinks": {"out": out, "again": {**shadow, "with": {**out["with"], "path": "/again"}}},
        }
    )
    assert [read.stream.node for read in Lineage(plan).reads] == ["lines"]
    assert [write.sink for write in Lineage(plan).writes] == ["out"]


def test_what_is_in_an_envelope_is_of_value_and_headers():
    """Pass: columns of the schema, and those that `keep` has of attributes."""
    row = decode(envelope="cloudevents", keep={"t": "attributes['type']", "at": "timestamp"})
    found = made(lineage({"last": row}))
    assert found["city"] == found["t"] == {"value", "headers"}
    assert found["at"] == {"timestamp"}
