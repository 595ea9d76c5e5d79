"""Spans as a collector gets them, and what becomes of a run whose collector is away."""

from __future__ import annotations

import logging

import pytest
from mainstem import DocumentError, PipelineError
from mainstem.plan.build import make_plan
from mainstem_testkit.inbox import inbox
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

BATCH = {
    "event": "batch",
    "pipeline": "p",
    "query": "out",
    "batch": 7,
    "at": "2026-01-01T00:00:00.500Z",
    "seconds": 1.25,
    "rows_in": 10,
    "late_rows": 0,
    "state_rows": 3,
    "watermark": None,
    "nodes": {"lines": {"rows": 10}, "out": {"rows": 9, "rejected": 1}},
}


@pytest.fixture
def collector():
    """A server that takes what is posted, or answers as it is told to."""
    with inbox() as made:
        yield made


def plan_of(**options):
    lines = {"use": "files", "with": {"path": "in", "format": "message"}}
    return make_plan(
        {
            "pipeline": "p",
            "sources": {"lines": lines},
            "sinks": {"out": {"use": "console", "from": "lines"}},
            "observers": {"traces": {"use": "opentelemetry", "with": options}},
        }
    )


def run(plan, *facts, error=None):
    """Tell a plan's observer of a run."""
    observer = plan.observers["traces"]
    observer.started(plan)
    for each in facts:
        observer.batch(each)
    observer.ended(plan, error)


def spans(collector):
    """Return the spans by name, and the attributes of what they are of."""
    resources = [
        each
        for _, _, body in collector.got
        for each in ExportTraceServiceRequest.FromString(body).resource_spans
    ]
    found = [span for each in resources for scope in each.scope_spans for span in scope.spans]
    return {span.name: span for span in found}, attributes(resources[0].resource)


def attributes(holder):
    return {each.key: each.value.string_value or each.value.int_value for each in holder.attributes}


def test_a_batch_is_a_trace_that_links_to_its_run(collector):
    """Pass: times and rows are the batch's, the path and the headers are those of the options."""
    run(plan_of(url=f"{collector.url}/v1/traces", headers={"X-Key": "s3cret"}), BATCH)
    found, resource = spans(collector)
    assert resource["service.name"] == "p"
    whole, batch = found["run p"], found["batch out"]
    assert batch.start_time_unix_nano == 1_767_225_600_500_000_000
    assert batch.end_time_unix_nano - batch.start_time_unix_nano == 1_250_000_000
    assert batch.trace_id != whole.trace_id
    assert [link.span_id for link in batch.links] == [whole.span_id]
    told = attributes(batch)
    assert (told["mainstem.batch"], told["mainstem.rows_in"]) == (7, 10)
    assert (told["mainstem.nodes.out.rows"], told["mainstem.nodes.out.rejected"]) == (9, 1)
    assert "mainstem.watermark" not in told
    assert {(path, headers["X-Key"]) for path, headers, _ in collector.got} == {
        ("/v1/traces", "s3cret")
    }


def test_a_batch_links_to_the_traces_of_its_messages(collector):
    """Pass: each once, by what their headers say; what is no `traceparent` is none."""
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    values = [f"00-{trace}-{span}-01", "nonsense", f"00-{'0' * 32}-{span}-01"]
    facts = {**BATCH, "headers": {"traceparent": values}}
    run(plan_of(url=f"{collector.url}/v1/traces"), facts)
    found, _ = spans(collector)
    (own, messages) = found["batch out"].links
    assert own.span_id == found["run p"].span_id
    assert (messages.trace_id.hex(), messages.span_id.hex()) == (trace, span)


def test_an_observer_asks_for_the_header_unless_told_not_to():
    """Pass: `links: false` asks for nothing."""
    assert plan_of().observers["traces"].header() == "traceparent"
    assert plan_of(links=False).observers["traces"].header() is None


def test_an_error_is_the_runs_status_without_secrets(collector):
    """Pass: its words are there, and the secret in them is not."""
    plan = plan_of(url=f"{collector.url}/v1/traces", service="orders")
    plan.scrubber.hide("hunter2")
    run(plan, error=PipelineError("no: hunter2 is wrong"))
    found, resource = spans(collector)
    assert resource["service.name"] == "orders"
    whole = found["run p"]
    assert whole.status.code == 2
    assert whole.status.message.startswith("no: ")
    assert attributes(whole.events[0])["exception.type"] == "PipelineError"
    assert "hunter2" not in str(whole)


@pytest.mark.parametrize("away", [True, False], ids=["away", "refuses"])
def test_a_collector_that_takes_nothing_is_told_in_the_log_alone(collector, caplog, away):
    """Pass: nothing is raised, the log has a word of it, and nowhere is the token."""
    collector.answer = 400
    url = "http://127.0.0.1:1/v1/traces" if away else f"{collector.url}/v1/traces"
    with caplog.at_level(logging.WARNING):
        run(plan_of(url=url, headers={"X-Key": "s3cret"}, answer_timeout="1 s"), BATCH)
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")]
    assert "s3cret" not in caplog.text


def test_a_collector_that_stands_still_holds_up_an_end_no_longer_than_give_up(collector, caplog):
    """Pass: the end is told to have been missed, while the collector still holds the request."""
    collector.open.clear()
    run(
        plan_of(url=f"{collector.url}/v1/traces", give_up="300 ms", answer_timeout="1 minute"),
        BATCH,
    )
    assert collector.got == []
    assert "not taken in time" in caplog.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "ftp://a"}, "expected a URL"),
        ({"url": "https://me:mine@a"}, "write `headers`"),
        ({"url": "https://a b/mine"}, "its host is none"),
        ({"headers": {"a b": "mine"}}, "none of a header"),
        ({"headers": {"a": "mine\r\nX: y"}}, "control characters"),
    ],
)
def test_wrong_options_are_told(options, why):
    """Pass: with the reason, and without what they hold."""
    with pytest.raises(DocumentError, match=why) as refused:
        plan_of(**options)
    assert "mine" not in str(refused.value)
