"""`http_lookup`: rows ask an HTTP service, and what it says is written down before it is used."""

from __future__ import annotations

import time
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest
from lookup_far import Service
from mainstem import DocumentError, PermanentError
from mainstem.columns import read_columns
from mainstem.crashpoints import Died, armed
from mainstem_direct_webhook.lookup.http import HTTPLookup
from mainstem_direct_webhook.lookup.options import HTTPLookupOptions
from mainstem_lookup import MISSING
from mainstem_lookup.asking import Asker, Asking
from mainstem_testkit import crash_at_every_point
from mainstem_testkit.pipelines import PipelineFolder


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


def options(service, **more):
    given = {
        "url": f"{service.url}/customers/{{id}}",
        "schema": "name STRING, turn BIGINT",
        "allow_private": True,
        **more,
    }
    return HTTPLookupOptions.model_validate(given)


def asker(service, keys="id STRING", **more):
    made = options(service, **more)
    return Asker(Asking(HTTPLookup, made, read_columns(keys), made.table_schema, "node"))


def answer(service, key="1", **more):
    return asker(service, **more).answers([(key,)])[(key,)]


# -- one request ----------------------------------------------------------------------------


def test_an_object_becomes_columns_by_the_schema(service):
    assert answer(service, "7").values == ("n7", 1)
    assert service.headers["accept"] == "application/json"
    assert "content-length" not in {name.lower() for name in service.headers}


@pytest.mark.parametrize("status", [204, 404, 410])
def test_there_is_nothing_for_a_key(service, status):
    service.answers["/customers/1"] = [status]
    assert answer(service) is MISSING


@pytest.mark.parametrize(
    ("told", "more", "why"),
    [
        ((400, {}, "no such form"), {}, "answers 400 Bad Request: no such form"),
        (404, {"reject": [404]}, "answers 404 Not Found"),
        ((200, {}, "[1]"), {}, "does not fit the schema: no JSON object"),
        ((200, {}, '{"turn": "x"}'), {}, "does not fit the schema: turn is no BIGINT"),
        ((200, {}, ""), {}, "does not fit the schema: the value is empty"),
        (
            (200, {}, '{"name": "' + "x" * 2000 + '"}'),
            {"max_size": "1 KB"},
            "larger than `max_size`",
        ),
    ],
)
def test_what_is_refused_says_why(service, told, more, why):
    service.answers["/customers/1"] = [told]
    found = answer(service, **more)
    assert found.values is None
    assert why in found.refusal


def test_what_passes_with_time_is_asked_again(service):
    service.answers["/customers/1"] = [503, (429, {"retry-after": "1"}, ""), 500]
    began = time.monotonic()
    assert answer(service).values == ("n1", 4)
    assert time.monotonic() - began > 1.0


def test_who_gives_up_says_what_was_said(service):
    service.answers["/customers/1"] = [(503, {}, "out of order")] * 1000
    with pytest.raises(PermanentError, match=r"node: no answer in \d s \(give_up\).*out of order"):
        answer(service, give_up="1 second")


@pytest.mark.parametrize("status", [401, 403, 301])
def test_an_endpoint_that_is_closed_to_us_ends_the_batch(service, status):
    service.answers["/customers/1"] = [status]
    with pytest.raises(
        PermanentError, match=f"node: http://127.0.0.1:.* answers {status} .*are `url`"
    ):
        answer(service)


def test_nothing_listens(service):
    service.close()
    with pytest.raises(PermanentError, match="give_up.*refused"):
        answer(service, give_up="300 ms")


def test_secrets_are_not_shown(service):
    service.answers["/customers/1?key=hunter2hunter2"] = [(400, {}, "what is hunter2hunter2?")]
    found = answer(service, url=f"{service.url}/customers/{{id}}?key=hunter2hunter2")
    assert "what is" in found.refusal
    assert "hunter2" not in found.refusal


def test_a_token_beside_a_column_is_not_shown(service):
    service.answers["/bot-SECRETTOKEN-1"] = [(400, {}, "SECRETTOKEN is no robot")]
    found = answer(service, url=f"{service.url}/bot-SECRETTOKEN-{{id}}", headers={"accept": "a/b"})
    assert "is no robot" in found.refusal
    assert service.headers["accept"] == "a/b"
    service.answers["/bot-SECRETTOKEN-1"] = [(400, {}, "who is bot-SECRETTOKEN-1?")]
    assert "TOKEN" not in answer(service, url=f"{service.url}/bot-SECRETTOKEN-{{id}}").refusal


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a/b c", "/customers/a%2Fb%20c"),
        ("ä?&#%", "/customers/%C3%A4%3F%26%23%25"),
        ("..%2f", "/customers/..%252f"),
    ],
)
def test_a_value_is_encoded(service, key, path):
    assert answer(service, key).values is not None
    assert list(service.asked) == [path]


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_a_value_that_would_be_another_path_is_refused(service, key):
    assert "no part of a path" in answer(service, key).refusal
    assert not service.asked


def test_values_of_all_types_of_keys(service):
    import datetime

    keys = "a BOOLEAN, b DECIMAL(5,2), c DATE, d BINARY, e INT"
    made = asker(service, keys, url=f"{service.url}/x/{{a}}/{{b}}?c={{c}}&d={{d}}&e={{e}}")
    made.answers([(True, Decimal("1.50"), datetime.date(2026, 1, 2), b"\x01\xff", -3)])
    assert list(service.asked) == ["/x/true/1.50?c=2026-01-02&d=01ff&e=-3"]


# -- many -----------------------------------------------------------------------------------


def test_each_key_is_asked_for_once_and_several_at_a_time(service):
    service.slow = 0.05
    made = asker(service, requests=5)
    rows = [str(n) for n in range(40)] * 2
    found = made([pa.array(rows)])
    assert [row["values"]["name"] for row in found.to_pylist()] == [f"n{row}" for row in rows]
    assert service.asked.total() == 40
    assert service.most == 5


def test_answers_serve_for_as_long_as_they_may(service):
    made = asker(service, cache_for="300 ms", missing="reject")
    service.answers["/customers/2"] = [404]
    first = made.answers([("1",), ("2",)])
    assert made.answers([("1",), ("2",)]) == first
    assert service.asked.total() == 2
    time.sleep(0.4)
    assert made.answers([("1",)])[("1",)].values == ("n1", 3)


def test_a_null_is_no_key(service):
    assert asker(service, "id STRING, b STRING", url=f"{service.url}/{{id}}/{{b}}").answers(
        [("1", None)]
    ) == {("1", None): MISSING}
    assert not service.asked


# -- documents ------------------------------------------------------------------------------

DECODE = {
    "use": "decode",
    "from": "lines",
    "with": {"format": "json", "schema": "id STRING, n INT"},
}


def document(pipeline, service, *, sinks=("out",), on=None, **more):
    given = {
        "url": f"{service.url}/customers/{{id}}",
        "schema": "name STRING, turn BIGINT, odd BOOLEAN",
        "allow_private": True,
        **more,
    }
    known = {"use": "http_lookup", "from": "rows", "with": given}
    made = {name: pipeline.sink(name, "known") for name in sinks}
    return pipeline.document(
        operators={"rows": DECODE, "known": known},
        sinks={**made, "bad": pipeline.sink("bad", "known.rejected"), **(on or {})},
    )


@pytest.mark.in_turn
def test_rows_come_out_once_each_with_their_answer_or_refused(spark, tmp_path, service):
    pipeline = document(PipelineFolder(tmp_path), service)
    service.answers["/customers/2"] = [404]
    service.answers["/customers/3"] = [(422, {}, "no")]
    pipeline.feed("a", [{"id": i, "n": n} for n, i in enumerate(["1", "2", "3", None, "1"])])
    pipeline.run()
    out = {row["n"]: (row.get("name"), row.get("turn")) for row in pipeline.rows("out")}
    assert out.keys() == {0, 1, 3, 4}
    assert out[0] == out[4] == ("n1", out[0][1])
    assert out[1] == out[3] == (None, None)
    (bad,) = pipeline.rows("bad")
    assert bad["node"] == "known"
    assert "answers 422 Unprocessable" in bad["reason"]
    assert service.asked == {"/customers/1": 1, "/customers/2": 1, "/customers/3": 1}
    shown = (tmp_path / "checkpoints/test/relays").glob("*")
    assert [each.name for each in shown] == ["known_asked_relay"]


@pytest.mark.in_turn
def test_rows_for_which_there_is_nothing_are_refused_if_asked_for(spark, tmp_path, service):
    pipeline = document(PipelineFolder(tmp_path), service, missing="reject")
    service.answers["/customers/2"] = [404]
    pipeline.feed("a", [{"id": "1", "n": 1}, {"id": "2", "n": 2}])
    pipeline.run()
    assert [row["n"] for row in pipeline.rows("out")] == [1]
    assert [row["reason"] for row in pipeline.rows("bad")] == ["there is nothing for id"]


def two_queries(pipeline, service, *, record):
    """Make a document whose sinks run in two queries, over a service that never answers the same."""
    known = {
        "url": f"{service.url}/customers/{{id}}",
        "schema": "turn BIGINT, odd BOOLEAN",
        "allow_private": True,
        "cache_for": "0 seconds",
        "record": record,
    }
    for name in "ab":
        pipeline.feed(name, [{"id": f"{name}{n}", "n": n} for n in range(4)])
        service.answers |= {f"/customers/{name}{n}": [400, 200] * 100 for n in (0, 1)}
    return pipeline.document(
        operators={"rows": DECODE, "known": {"use": "http_lookup", "from": "rows", "with": known}},
        sinks={
            "out": pipeline.sink("out", "known"),
            "bad": pipeline.sink("bad", "known.rejected"),
            "other": pipeline.sink("other", "known", query="own"),
        },
    )


def told(done):
    """Return what each of two sinks was told, and how many rows were refused."""
    made = [{(r["id"], r["turn"]) for r in done.rows(name)} for name in ("out", "other")]
    return *made, len(done.rows("bad"))


@pytest.mark.in_turn
def test_what_breaks_leaves_each_row_one_answer(spark, tmp_path, service):
    """Pass: whatever step is broken off, two sinks agree, and no row is lost or in two outputs."""
    pipeline = two_queries(PipelineFolder(tmp_path), service, record=True)

    def check(done):
        out, other, refused = told(done)
        assert out == other, f"two sinks differ: {out} and {other}"
        assert len(done.rows("out")) + refused == 8, f"{refused} refused of {out}"

    def chosen(found):
        return [point for point in found if point.startswith(("relay.", "run."))]

    crash_at_every_point(pipeline, check, points=chosen, here=True)


@pytest.mark.in_turn
def test_answers_that_are_not_recorded_can_differ(spark, tmp_path, service):
    """Pass: without a record each query asks by itself, and they do not agree (so the test above tells)."""
    pipeline = two_queries(PipelineFolder(tmp_path), service, record=False)
    pipeline.run()
    out, other, _ = told(pipeline)
    assert out != other
    assert not list((tmp_path / "checkpoints/test").glob("relays/*"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"url": "http://h.test/all"}, "names no column"),
        ({"url": "http://{id}.test/"}, "braces in its host"),
        ({"url": "http://h.test/{id}/{n"}, "a brace that does not fit"),
        ({"url": "http://h.test/{other}"}, "other"),
        ({"schema": "n INT"}, "has a column n already"),
        ({"url": "http://127.0.0.1/{id}", "allow_private": False}, "loopback"),
        ({"schema": "v VARIANT"}, "can't be looked up"),
    ],
)
def test_what_is_wrong_in_a_document_is_told_with_its_line(tmp_path, service, more, words):
    pipeline = document(PipelineFolder(tmp_path), service, **more)
    with pytest.raises(DocumentError, match=words) as caught:
        pipeline.plan()
    assert all(problem.line for problem in caught.value.problems)
    assert "h.test" not in str(caught.value)


def test_the_name_of_the_first_step_is_taken(tmp_path, service):
    pipeline = document(PipelineFolder(tmp_path), service)
    text = (
        pipeline.file.read_text()
        .replace("rows:", "known_asked:")
        .replace("from: rows", "from: known_asked")
    )
    pipeline.file.write_text(text)
    with pytest.raises(DocumentError, match="first step of 'known' has the name 'known_asked' too"):
        pipeline.plan()


def test_a_plan_says_that_answers_are_recorded(tmp_path, service):
    from mainstem.plan.rendering import as_text

    pipeline = document(PipelineFolder(tmp_path), service)
    plan = pipeline.plan()
    text = as_text(plan)
    assert "_answer" in [column.name for column in plan.nodes["known_asked"].shape.columns]
    assert "_answer" not in [column.name for column in plan.nodes["known"].shape.columns]
    assert "known might be answered otherwise if it asked again" in text
    assert "is answered alike" not in text
    loose = as_text(document(pipeline, service, record=False).plan())
    assert "as long as known is answered alike whenever it asks again (record: false)" in loose


def test_a_reordered_schema_names_the_same_values(tmp_path, service):
    """Pass: what is recorded has the names of the columns, for a document may be changed before it is read."""
    pipeline = document(PipelineFolder(tmp_path), service, schema="turn BIGINT, `na me` STRING")
    shape = pipeline.plan().nodes["known_asked"].shape
    (kind,) = [column.type for column in shape.columns if column.name == "_answer"]
    assert (
        kind == "struct<found:boolean,refusal:string,values:struct<`turn`:bigint,`na me`:string>>"
    )


@pytest.mark.in_turn
def test_rows_that_were_not_read_are_not_forgotten_with_a_changed_document(
    spark, tmp_path, service
):
    """Pass: with rows in a relay that the document no longer has, the run is refused until they are read."""
    pipeline = document(PipelineFolder(tmp_path), service)
    pipeline.feed("a", [{"id": "1", "n": 1}])
    before = pipeline.file.read_text()
    with armed("relay.after-entry:1:die"), suppress(Exception, Died):
        pipeline.run()
    document(pipeline, service, record=False)
    with pytest.raises(
        DocumentError, match="no known_asked_relay any more, which has 1 rows to be read"
    ):
        pipeline.run()
    pipeline.file.write_text(before)
    pipeline.run()
    document(pipeline, service, record=False)
    pipeline.feed("b", [{"id": "2", "n": 2}])
    pipeline.run()
    pipeline.feed("c", [{"id": "3", "n": 3}])
    pipeline.run()  # of the relay its last segment stays, which nobody waits for
    assert sorted(row["n"] for row in pipeline.rows("out")) == [1, 2, 3]
