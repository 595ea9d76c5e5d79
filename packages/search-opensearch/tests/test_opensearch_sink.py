"""What becomes of rows at a real node of OpenSearch, and what its answers mean."""

from __future__ import annotations

import json
import uuid

import pytest
from mainstem import DocumentError, PermanentError, TransientError
from mainstem.cli.app import app
from mainstem.columns import read_columns
from mainstem.sinks import Refused
from mainstem_search_opensearch import bulk
from mainstem_search_opensearch.bulk import Bulk, Line
from mainstem_search_opensearch.connection import LargeError
from mainstem_search_opensearch.options import OpenSearchOptions
from mainstem_search_opensearch.sink import OpenSearchSink
from mainstem_testkit.server import free_port
from pydantic import ValidationError
from typer.testing import CliRunner

ROWS = "shop STRING, id INT, at STRING, note STRING, gone BOOLEAN"


@pytest.fixture
def index():
    return f"i{uuid.uuid4().hex}"


def document(pipeline, server, index, key=("id",), schema=ROWS, more=(), **options):
    """Write a document of a table's changes, a batch for each file."""
    lines = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
    changes = {"key": list(key), "sequence": "at", "delete": "gone"}
    given = {"url": server.url, "index": index, "give_up": "8 s", **options}
    return pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        operators={"changes": {"use": "changelog", "from": "rows", "with": changes}},
        sinks={
            "table": {"use": "opensearch", "from": "changes", "with": given},
            **dict(more),
        },
    )


def sequence(transaction, number):
    return f"{transaction:016x}-{number:08x}"


@pytest.mark.in_turn
def test_changes_of_a_database_are_ordered_by_transaction_and_number(pipeline, opensearch, index):
    """Pass: the last change of a transaction wins, in one batch and over two; one of an older transaction that comes later, and
    one that is older than a deletion, have no effect."""
    batches = [
        [(1, 5, 2, "second"), (1, 5, 1, "first"), (2, 5, 1, "first"), (3, 9, 0, None), (4, 7, 0, "x")],
        [(2, 5, 3, "third"), (1, 4, 9, "older"), (3, 8, 0, "older"), (4, 8, 0, None)],
        [(4, 9, 0, "back")],
    ]  # fmt: skip
    for number, batch in enumerate(batches):
        lines = [
            {"id": key, "at": sequence(at, n), "note": note, "gone": note is None}
            for key, at, n, note in batch
        ]
        pipeline.feed(f"{number}.jsonl", lines)
        document(pipeline, opensearch, index).run()
    found = {key: held["note"] for key, held in opensearch.documents(index).items()}
    assert found == {"1": "second", "2": "third", "4": "back"}


@pytest.mark.in_turn
def test_documents_are_put_where_the_document_says(pipeline, opensearch, index):
    """Pass: an index for each shop, ids of the whole key, shards by a column; what the node refuses comes out with its words, and a
    sequence that is no version too."""
    bad = pipeline.sink("bad", "table.rejected")
    pipeline.feed(
        "0.jsonl",
        [
            {"shop": "a", "id": 1, "at": sequence(1, 0), "note": "x"},
            {"shop": "b", "id": 1, "at": sequence(1, 0), "note": "y"},
            {"shop": "B", "id": 1, "at": sequence(1, 0), "note": "an index's name is lower case"},
            {"shop": "b", "id": 2, "at": "7", "note": "no sequence of a database"},
        ],
    )
    document(
        pipeline, opensearch, f"{index}-{{shop}}", ("shop", "id"), id="{shop}/{id}", routing="shop",
        more={"bad": bad},
    ).run()  # fmt: skip
    assert list(opensearch.documents(f"{index}-a")) == ["a/1"]
    opensearch.ask("POST", f"/{index}-b/_refresh")
    query = {"query": {"ids": {"values": ["b/1"]}}}
    found = opensearch.ask("POST", f"/{index}-b/_search?routing=b", query)["hits"]["hits"]
    assert [(hit["_id"], hit["_routing"]) for hit in found] == [("b/1", "b")]
    reasons = sorted(row["reason"] for row in pipeline.rows("bad"))
    assert "its sequence is no version" in reasons[1]
    assert reasons[0].startswith("invalid_index_name_exception")


@pytest.mark.in_turn
def test_an_index_is_built_beside_and_put_in_place(opensearch, index, spark):
    """Pass: the name becomes an alias of the new index, at once, twice in a row; nothing is done where nothing was built."""

    def sink(name):
        return OpenSearchSink(OpenSearchOptions(url=opensearch.url, index=name))

    here = sink(index)
    columns = read_columns("id INT")
    from mainstem import Events

    here.prepare(columns, Events(columns))
    opensearch.ask("PUT", f"/{index}/_doc/old", {"id": 1})
    for number in range(2):
        built = here.beside("next")
        here.swap(built)
        assert number or "old" in opensearch.documents(index)
        built.clear()
        built.prepare(columns, Events(columns))
        opensearch.ask("PUT", f"/{built.options.index}/_doc/new{number}", {"id": 2})
        here.swap(built)
        assert list(opensearch.documents(index)) == [f"new{number}"]
    assert len(opensearch.ask("GET", f"/_alias/{index}")) == 1


def test_deletions_are_remembered_as_long_as_is_said(opensearch, index):
    """Pass: the index gets that setting, whether it is made here or was there."""
    from mainstem import Changelog

    columns = read_columns("id INT, at BIGINT")
    shape = Changelog(columns, ["id"], "at")
    for kept in ("2 hours", "3 hours"):
        given = OpenSearchOptions(url=opensearch.url, index=index, deletes_within=kept)
        OpenSearchSink(given).prepare(columns, shape)
        settings = opensearch.ask("GET", f"/{index}/_settings")[index]["settings"]["index"]
        assert settings["gc_deletes"] == f"{int(kept[0]) * 3600}s"


def test_nodes_that_are_not_there_or_are_none(opensearch):
    """Pass: retried, or told at once; no password is shown."""
    columns = read_columns("id INT")
    url = f"http://me:hunter2@127.0.0.1:{free_port()}"
    with pytest.raises(TransientError) as error:
        OpenSearchSink(OpenSearchOptions(url=url, index="x")).prepare(columns, None)
    assert "hunter2" not in str(error.value)
    with pytest.raises(ValidationError, match="expected no path"):
        OpenSearchOptions(url=f"{opensearch.url}/path", index="x")
    given = OpenSearchOptions(url=opensearch.url, index="Upper")
    with pytest.raises(PermanentError, match="must be lowercase"):
        OpenSearchSink(given).prepare(columns, None)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"index": "x-{note}"}, "note is not in the table's key"),
        ({"index": "x-{what}"}, "what"),
        ({"index": "x-{"}, "a brace itself is written twice"),
        ({"id": "{note}"}, "the table's key is id, and the id names note"),
        ({"routing": "note"}, "note is not in the table's key"),
        ({"id": "{id}{note}"}, "need a sign between them"),
    ],
)
def test_wrong_documents_are_told(pipeline, options, told):
    """Pass: before anything runs, with the line."""
    server = type("Server", (), {"url": "http://host"})()
    given = {"index": "x", **options}
    with pytest.raises(DocumentError, match=told):
        document(pipeline, server, given.pop("index"), **given).plan()


class Answers:
    """A node that answers as it is told, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def ask(self, method, path, body=None, **_):
        lines = [json.loads(line) for line in body.splitlines()]
        self.asked.append([line["index"]["_id"] for line in lines if "index" in line])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        items = [{"index": each} for each in answer]
        return {"errors": any(each["status"] >= 300 for each in answer), "items": items}


def sent(monkeypatch, node, count):
    """Send some documents; return why some were refused."""
    made = Bulk(OpenSearchOptions(url="http://host", index="x"), "ledger", 1)
    monkeypatch.setattr(Bulk, "_connected", lambda _: node)
    monkeypatch.setattr(bulk.time, "sleep", lambda _: None)
    lines = [Line(json.dumps({"index": {"_id": str(n)}}), "{}", None) for n in range(count)]
    refused = Refused()
    made.send(lines, refused)
    return [row for batch in refused.take() for row in batch.to_pylist()]


OK, OLDER = {"status": 200}, {"status": 409, "error": {"type": "version_conflict_engine_exception"}}
BUSY = {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "queue is full"}}
BLOCKED = {
    "status": 403,
    "error": {"type": "cluster_block_exception", "reason": "disk usage exceeded"},
}
WRONG = {
    "status": 400,
    "error": {
        "type": "mapper_parsing_exception",
        "reason": "n",
        "caused_by": {"type": "t", "reason": "r"},
    },
}


def test_only_what_was_not_taken_is_sent_again(monkeypatch):
    """Pass: what a busy or full node did not take; older versions are done, wrong documents refused with every reason."""
    node = Answers([OK, BUSY, WRONG, OLDER, BLOCKED], [BUSY, OK], [OK])
    (refused,) = sent(monkeypatch, node, 5)
    assert node.asked == [["0", "1", "2", "3", "4"], ["1", "4"], ["1"]]
    assert refused["reason"] == "mapper_parsing_exception: n (t: r)"


def test_requests_that_are_too_large_are_cut(monkeypatch):
    """Pass: in halves; a document that is too large by itself is refused."""
    node = Answers(LargeError("413"), [OK], LargeError("413"), LargeError("413"), [OK])
    (refused,) = sent(monkeypatch, node, 3)
    assert node.asked == [["0", "1", "2"], ["0"], ["1", "2"], ["1"], ["2"]]
    assert refused["reason"] == "413"


@pytest.mark.parametrize(
    ("status", "kind", "why"),
    [
        (403, "security_exception", "no permissions"),
        (400, "index_closed_exception", "closed"),
        (400, "illegal_argument_exception", "no write index is defined for alias [x]"),
        (400, "validation_exception", "this action would add [2] shards"),
    ],
)
def test_what_is_wrong_with_all_documents_ends_the_batch(monkeypatch, status, kind, why):
    """Pass: no document is refused for what is no fault of it."""
    answer = {"status": status, "error": {"type": kind, "reason": why}}
    with pytest.raises(PermanentError, match=kind):
        sent(monkeypatch, Answers([answer]), 1)


def test_a_broken_disk_is_waited_for(monkeypatch):
    """Pass: what the node itself suffers from is retried."""
    broken = {"status": 500, "error": {"type": "i_o_exception", "reason": "no space left"}}
    node = Answers([broken], [OK])
    assert sent(monkeypatch, node, 1) == []
    assert node.asked == [["0"], ["0"]]


def test_refusals_of_a_request_that_is_sent_again_are_told_once(monkeypatch):
    """Pass: where one half was refused and the other half could not be sent."""
    node = Answers(LargeError("413"), [WRONG], TransientError("gone"), [WRONG, OK])
    assert len(sent(monkeypatch, node, 2)) == 1


@pytest.mark.in_turn
def test_ids_that_a_template_makes_are_of_one_row_and_no_longer_than_ids_are(
    pipeline, opensearch, index
):
    """Pass: what stands between columns is written otherwise in their values, as `verify` reads it; a row whose
    id no node takes is refused alone."""
    rows = [
        {"shop": shop, "id": 1, "at": sequence(1, 0), "note": "x"}
        for shop in ("a-1", "a", "é" * 300)
    ]
    pipeline.feed("0.jsonl", rows)
    more = {"bad": pipeline.sink("bad", "table.rejected")}
    document(pipeline, opensearch, index, ("shop", "id"), more=more, id="{shop}-{id}").run()
    assert [row["reason"] for row in pipeline.rows("bad")] == ["an id has 1 to 512 bytes"]
    assert set(opensearch.documents(index)) == {"a%2D1-1", "a-1"}
    verified = ["verify", str(pipeline.file), "--sink", "table", "--format", "json"]
    ended = CliRunner().invoke(app, verified, catch_exceptions=False)
    assert json.loads(ended.output)["held"] == 2


@pytest.mark.in_turn
def test_ids_of_several_columns_are_of_one_row(pipeline, opensearch, index):
    """Pass: where a column's text has the sign between them; documents of others in the index are not taken for the table's."""
    rows = [
        {"shop": "a:b", "id": 1, "at": sequence(1, 0), "note": "one"},
        {"shop": "a", "id": 1, "at": sequence(1, 0), "note": "two"},
    ]
    pipeline.feed("0.jsonl", rows)
    document(pipeline, opensearch, index, ("shop", "id")).run()
    opensearch.ask("PUT", f"/{index}/_doc/other", {"shop": "q", "id": 9})
    assert set(opensearch.documents(index)) == {"a\\:b:1", "a:1", "other"}
    given = ["verify", str(pipeline.file), "--sink", "table", "--format", "json"]
    ended = CliRunner().invoke(app, given, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.output)["held"] == 2


def test_an_index_that_nobody_makes_ends_the_batch(monkeypatch):
    """Pass: where the cluster makes no index by itself."""
    missing = {
        "status": 404,
        "error": {"type": "index_not_found_exception", "reason": "no such index"},
    }
    with pytest.raises(PermanentError, match="make the index"):
        sent(monkeypatch, Answers([missing]), 1)


def test_keys_that_are_no_keys_of_json_are_refused():
    """Pass: before a run; days would be numbers."""
    from mainstem import Events, OptionError
    from mainstem_search_opensearch.options import OpenSearchOptions
    from mainstem_search_opensearch.sink import OpenSearchSink

    shape = Events("days MAP<DATE, INT>")
    options = OpenSearchOptions.model_validate({"url": "http://host:9200", "index": "i"})
    with pytest.raises(OptionError, match="can't hold the column days"):
        OpenSearchSink(options).check_types(shape.columns, shape)
