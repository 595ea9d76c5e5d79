"""csv files: one dialect, columns by their names, and refused rows with file and line; names of columns."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from mainstem.builtin.csv_files import CsvFiles
from mainstem.contracts.ddl import read_columns
from mainstem.formats.rules import Rules

SCHEMA = "id BIGINT, name STRING, amt DECIMAL(10,2)"


def source(**more):
    return {"use": "files", "with": {"path": "./in", "format": "csv", "schema": SCHEMA, **more}}


def read(pipeline, **more):
    pipeline.document(
        sources={"rows": source(**more)},
        operators={},
        sinks={"out": pipeline.sink("out", "rows"), "bad": pipeline.sink("bad", "rows.rejected")},
    )
    summary = pipeline.run()
    rows = sorted(pipeline.rows("out"), key=lambda row: row["id"])
    bad = {base64.b64decode(row["payload"]): row["reason"] for row in pipeline.rows("bad")}
    return rows, bad, summary["queries"]["rows"]["nodes"]["rows"]


@pytest.mark.in_turn
def test_each_file_is_read_by_its_own_header_and_each_bad_row_is_named(pipeline):
    """Pass: any order of columns, marks, line ends, quotes and packing give the rows; each row that does not
    fit is refused with its file, its line and its bytes, and nothing else is lost."""
    pipeline.feed("a.csv", b'\xef\xbb\xbfname,id,AMT\r\n"two\r\nlines",1,1.50\r\n"",2,\r\n')
    pipeline.feed("b.csv", b"id,name,amt\rx,Ann,1\r3,Bob,1.239\r4,Cid,2\r")
    pipeline.feed("c.csv", b"id,name\n5,Dan\n")
    pipeline.feed("d.csv", b"id,name,amt,more\n6,Eve,1,x\n")
    pipeline.feed("e.csv", b'id,name,amt\n7,"open,1\n8,Fay,3\n9,caf\xe9,1\n10,a,1,1\n')
    pipeline.feed("f.csv.gz", gzip.compress(b"id,name,amt\n11,Gil,4\n"))
    pipeline.feed("g.csv.gz", gzip.compress(b"id,name,amt\n" + b"12,Hal,5\n" * 5)[:-9])
    rows, bad, counts = read(pipeline)
    assert [row for row in rows if row["id"] != 12] == [
        {"id": 1, "name": "two\r\nlines", "amt": 1.5},
        {"id": 2, "name": ""},
        {"id": 4, "name": "Cid", "amt": 2.0},
        {"id": 8, "name": "Fay", "amt": 3.0},
        {"id": 11, "name": "Gil", "amt": 4.0},
    ]
    broken = bad.pop(b"", "")
    assert broken.startswith("g.csv.gz, line ")
    assert "is not readable" in broken
    assert bad == {
        b"x,Ann,1": "b.csv, line 2: id is no BIGINT",
        b"3,Bob,1.239": "b.csv, line 3: amt is no DECIMAL(10,2)",
        b"5,Dan": "c.csv, line 2: the header has no amt",
        b"6,Eve,1,x": "d.csv, line 2: the header has more, which the schema has not",
        b'7,"open,1': "e.csv, line 2: a quote is not closed",
        b"9,caf\xe9,1": "e.csv, line 4: not UTF-8",
        b"10,a,1,1": "e.csv, line 5: has 4 values, not 3",
    }
    assert counts == {"rows": len(rows), "rejected": len(bad) + 1}


@pytest.mark.in_turn
def test_encodings_and_decimal_commas_are_as_the_document_says(pipeline):
    """Pass: Latin-1 with commas is read; a byte that the encoding has not is refused."""
    pipeline.feed(
        "a.csv", "id;name;amt\n1;café;1.234,56\n2;€;12,50\n".encode("cp1252") + b"3;\x81;1\n"
    )
    rows, bad, _ = read(pipeline, separator=";", decimal=",", thousands=".", encoding="cp1252")
    assert rows == [
        {"id": 1, "name": "café", "amt": 1234.56}, {"id": 2, "name": "€", "amt": 12.5},
    ]  # fmt: skip
    assert bad == {b"3;\x81;1": "a.csv, line 4: not cp1252"}


@pytest.mark.in_turn
def test_utf_16_is_read_and_its_end_can_be_broken(pipeline):
    """Pass: an encoding with bytes unlike ASCII is read as text first."""
    pipeline.feed("a.csv", "id,name,amt\n1,grüße 🎉,1\n".encode("utf-16"))
    rows, bad, _ = read(pipeline, encoding="utf-16")
    assert rows == [{"id": 1, "name": "grüße 🎉", "amt": 1.0}]
    assert bad == {}


@pytest.mark.in_turn
def test_what_the_sink_writes_the_source_reads(pipeline):
    """Pass: texts with every special character, nulls and empty texts come back as they were."""
    texts = [
        'say "hi", ok',
        "  padded  ",
        "\t",
        "",
        None,
        "a\\",
        "x\ny",
        "\r\n",
        "NULL",
        "#c",
        "é 🎉",
        "'q'",
    ]
    rows = [{"id": number, "name": text} for number, text in enumerate(texts)]
    pipeline.feed("1.jsonl", rows)
    written = {"use": "files", "with": {"path": "./in", "format": "jsonlines", "schema": SCHEMA}}
    out = {"use": "files", "from": "rows", "with": {"path": "./made", "format": "csv"}}
    pipeline.document(sources={"rows": written}, operators={}, sinks={"out": out})
    pipeline.run()
    again = {**source(), "with": {**source()["with"], "path": "./made/*"}}
    pipeline.document(
        pipeline="again",
        sources={"rows": again},
        operators={},
        sinks={"out": pipeline.sink("back", "rows"), "bad": pipeline.sink("bad", "rows.rejected")},
    )
    pipeline.run()
    assert pipeline.rows("bad") == []
    found = {row["id"]: row.get("name") for row in pipeline.rows("back")}
    assert found == dict(enumerate(texts))


@pytest.mark.parametrize("format_", ["jsonlines", "csv"])
@pytest.mark.in_turn
def test_columns_may_have_the_names_that_rows_are_read_by(pipeline, format_):
    """Pass: a column that is named as what the source makes of each row is the file's own."""
    names = ("value", "name", "payload", "origin", "position", "reason", "c0", "partition")
    schema = ", ".join(f"{name} STRING" for name in names)
    given = {name: f"of {name}" for name in names}
    if format_ == "csv":
        pipeline.feed("1.csv", "\n".join([",".join(names), ",".join(given.values()), "x"]).encode())
    else:
        pipeline.feed("1.json", json.dumps(given).encode() + b"\nx\n")
    options = {"path": "./in", "format": format_, "schema": schema}
    pipeline.document(
        sources={"rows": {"use": "files", "with": options}},
        sinks={"out": pipeline.sink("out", "rows"), "bad": pipeline.sink("bad", "rows.rejected")},
    )
    pipeline.run()
    assert pipeline.rows("out") == [given]
    assert [base64.b64decode(row["payload"]) for row in pipeline.rows("bad")] == [b"x"]


def test_a_file_that_the_system_cannot_read_is_no_refused_row(tmp_path):
    """Pass: its error ends the task, for the next try may read the file; one that is broken is refused."""
    columns = read_columns(SCHEMA)
    files = CsvFiles(columns, ",", Rules(), header=True, encoding="utf-8")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(gzip.compress(b"id,name,amt\n1,Ann,2\n")[:-12])
    rows = [row for part in files._file(broken.as_uri()) for row in part.to_pylist()]
    assert "is not readable" in rows[-1]["reason"]
    with pytest.raises(FileNotFoundError):
        list(files._file((tmp_path / "gone.csv").as_uri()))
