"""Events of a run, checked against the specification's own schemas, and what takes them or does not."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from mainstem import DocumentError, PipelineError
from mainstem.plan.build import make_plan
from mainstem_testkit.inbox import inbox
from referencing import Registry, Resource

SCHEMAS = {
    file.stem: json.loads(file.read_text())
    for file in (Path(__file__).parent / "specification").glob("*.json")
}
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)


def check(event):
    """Look whether an event is what the specification says, and each of its facets."""
    _validate(event, "OpenLineage", "RunEvent")
    holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    facets = [
        facet
        for holder in holders
        for kind in ("facets", "inputFacets", "outputFacets")
        for facet in holder.get(kind, {}).values()
    ]
    for facet in facets:
        name = facet["_schemaURL"].rpartition("/")[2]
        _validate(facet, name, name)
    return len(facets)


def _validate(value, file, name):
    there = {"$ref": f"{SCHEMAS[file]['$id']}#/$defs/{name}"}
    Draft202012Validator(there, registry=REGISTRY, format_checker=FormatChecker()).validate(value)


def document(tmp_path, **observer):
    """Return a document with an observer: cents by city, of JSON messages."""
    schema = "city STRING NOT NULL, cents BIGINT"
    columns = {"city": "upper(city)", "euros": "cents / 100", "when": "received"}
    return {
        "pipeline": "cities",
        "description": "Euros by city.",
        "checkpoint": str(tmp_path / "checkpoints"),
        "trigger": {"available_now": True},
        "sources": {
            "lines": {"use": "files", "with": {"path": str(tmp_path), "format": "message"}}
        },
        "operators": {
            "order": {
                "use": "decode",
                "from": "lines",
                "with": {
                    "format": "json",
                    "schema": schema,
                    "keep": {"received": "timestamp"},
                },
            },
            "priced": {"use": "select", "from": "order", "with": {"columns": columns}},
        },
        "sinks": {
            "out": {
                "use": "files",
                "from": "priced",
                "with": {"path": str(tmp_path / "out"), "format": "jsonlines"},
            },
            "bad": {
                "use": "files",
                "from": "order.rejected",
                "with": {"path": str(tmp_path / "bad"), "format": "jsonlines"},
            },
        },
        "observers": {"lineage": {"use": "openlineage", "with": observer}},
    }


def plan_of(tmp_path, **observer):
    return make_plan(document(tmp_path, **observer))


def batch(rows):
    nodes = {
        "lines": {"rows": rows},
        "order": {"rows": rows - 1, "rejected": 1},
        "out": {"rows": rows - 1},
    }
    return {"event": "batch", "query": "out", "nodes": nodes}  # fmt: skip


def told(file):
    """Return the events of a file, each as the specification says."""
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert events
    assert all(check(event) > 3 for event in events)
    return events


def run(plan, *facts, error=None):
    """Tell a plan's observer of a run."""
    observer = plan.observers["lineage"]
    observer.started(plan)
    for each in facts:
        observer.batch(each)
    observer.ended(plan, error)


def test_a_run_is_a_start_what_goes_on_and_an_end(tmp_path):
    """Pass: one run of one job, by the specification; rows are those since the start; columns name what they are made of."""
    file = tmp_path / "events.jsonl"
    run(plan_of(tmp_path, file=str(file), every="1 hour", namespace="team"), batch(3), batch(5))
    events = told(file)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 1
    end = events[-1]
    assert end["job"]["namespace"] == "team"
    assert end["job"]["name"] == "cities"
    assert end["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert end["job"]["facets"]["documentation"]["description"] == "Euros by city."
    (given,) = end["inputs"]
    assert (given["namespace"], given["name"]) == ("file", str(tmp_path))
    assert given["inputFacets"]["inputStatistics"]["rowCount"] == 8
    by_name = {each["name"]: each for each in end["outputs"]}
    assert by_name.keys() == {str(tmp_path / "out"), str(tmp_path / "bad")}
    out = by_name[str(tmp_path / "out")]
    assert out["outputFacets"]["outputStatistics"]["rowCount"] == 6
    assert [each["name"] for each in out["facets"]["schema"]["fields"]] == ["city", "euros", "when"]
    fields = out["facets"]["columnLineage"]["fields"]
    origin = {"namespace": "file", "name": str(tmp_path)}
    made = {name: [each["field"] for each in told["inputFields"]] for name, told in fields.items()}
    assert made == {"city": ["value"], "euros": ["value"], "when": ["timestamp"]}
    assert all(
        {key: each[key] for key in origin} == origin
        for told in fields.values()
        for each in told["inputFields"]
    )


def test_what_goes_on_is_told_as_often_as_every_says(tmp_path):
    """Pass: with the shortest `every` there is one that goes on, with the rows until then."""
    file = tmp_path / "events.jsonl"
    plan = plan_of(tmp_path, file=str(file), every="1 ms")
    observer = plan.observers["lineage"]
    observer.started(plan)
    for _ in range(200):
        threading.Event().wait(0.01)
        observer.batch(batch(2))
        if '"RUNNING"' in (file.read_text() if file.exists() else ""):
            break
    observer.ended(plan, None)
    events = told(file)
    assert [event["eventType"] for event in events][:2] == ["START", "RUNNING"]
    assert events[1]["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] >= 2


@pytest.mark.parametrize(
    ("error", "state"),
    [(PipelineError("no: hunter2 is wrong"), "FAIL"), (KeyboardInterrupt(), "ABORT")],
    ids=["failed", "interrupted"],
)
def test_how_it_ends_is_told_without_secrets(tmp_path, error, state):
    """Pass: what failed has its error's words, in which the token is hidden."""
    file = tmp_path / "events.jsonl"
    plan = plan_of(tmp_path, file=str(file))
    plan.scrubber.hide("hunter2")
    run(plan, error=error)
    end = told(file)[-1]
    assert end["eventType"] == state
    assert "hunter2" not in json.dumps(end)
    if state == "FAIL":
        assert end["run"]["facets"]["errorMessage"]["message"].startswith("no: ")


def test_what_references_give_stands_in_names(tmp_path, monkeypatch):
    """Pass: a dataset has the name that it has for others, though the document takes it from the environment."""
    file = tmp_path / "events.jsonl"
    monkeypatch.setenv("PLACE", str(tmp_path / "given"))
    given = document(tmp_path, file=str(file))
    given["sources"]["lines"]["with"]["path"] = "${env:PLACE}"
    run(make_plan(given))
    assert told(file)[0]["inputs"][0]["name"] == str(tmp_path / "given")


def test_what_several_read_and_write_is_told_once(tmp_path):
    """Pass: of two sources and two sinks at one place the rows are added, and columns are made of both."""
    file = tmp_path / "events.jsonl"
    given = document(tmp_path, file=str(file))
    given["sources"]["again"] = {**given["sources"]["lines"]}
    more = {**given["operators"]["order"]["with"], "schema": "city STRING, cents BIGINT"}
    more["keep"] = {"when": "headers['when']"}
    given["operators"]["more"] = {**given["operators"]["order"], "from": "again", "with": more}
    given["sinks"]["bad"] = {**given["sinks"]["out"], "from": "more"}
    facts = {"event": "batch", "query": "q", "nodes": {}}
    facts["nodes"] = {"lines": {"rows": 3}, "again": {"rows": 4}, "out": {"rows": 3, "rejected": 1}, "bad": {"rows": 5}}  # fmt: skip
    run(make_plan(given), facts)
    end = told(file)[-1]
    (read,), (written,) = end["inputs"], end["outputs"]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 7
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 7
    fields = written["facets"]["columnLineage"]["fields"]
    assert fields.keys() == {"city", "euros", "when", "cents"}
    assert {each["name"] for each in written["facets"]["schema"]["fields"]} == fields.keys()
    made = {each["field"] for each in fields["when"]["inputFields"]}
    assert made == {"timestamp", "headers"}


def test_the_librarys_own_settings_change_nothing(tmp_path, monkeypatch):
    """Pass: events are there, though the environment turns the library off."""
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    file = tmp_path / "events.jsonl"
    run(plan_of(tmp_path, file=str(file)))
    assert len(told(file)) == 2


@pytest.fixture
def server():
    """A server that takes what is posted, or answers as it is told to."""
    with inbox() as made:
        yield made


def test_a_server_has_the_events_with_the_token(tmp_path, server):
    """Pass: each is posted once, to the endpoint, as the specification says."""
    run(plan_of(tmp_path, url=server.url, token="s3cret"), batch(2))
    events = [json.loads(body) for _, _, body in server.got]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert {path for path, _, _ in server.got} == {"/api/v1/lineage"}
    assert {headers["Authorization"] for _, headers, _ in server.got} == {"Bearer s3cret"}
    assert all(check(event) for event in events)


@pytest.mark.parametrize(
    "away", [pytest.param(True, marks=pytest.mark.in_turn), False], ids=["away", "refuses"]
)
def test_a_server_that_takes_nothing_is_told_in_the_log_alone(tmp_path, server, caplog, away):
    """Pass: nothing is raised, the log names each event that is lost, and nowhere is the token."""
    url = "http://127.0.0.1:1" if away else server.url
    server.answer = 400
    with caplog.at_level(logging.WARNING, "mainstem_observer_openlineage"):
        run(plan_of(tmp_path, url=url, token="s3cret", give_up="2 minutes"), batch(2))
    lost = [r.getMessage() for r in caplog.records if r.name.startswith("mainstem_observer")]
    assert [text.split(" of lineage")[0] for text in lost] == [
        "the event START",
        "the event COMPLETE",
    ]
    assert "s3cret" not in caplog.text


def test_a_server_that_stands_still_holds_up_an_end_no_longer_than_give_up(
    tmp_path, server, caplog
):
    """Pass: batches go on meanwhile, and the end is told to have been missed."""
    server.open.clear()
    run(plan_of(tmp_path, url=server.url, give_up="300 ms", answer_timeout="1 minute"), batch(2))
    assert server.got == []
    assert "not taken in time" in caplog.text


@pytest.mark.in_turn
def test_a_whole_run(pipeline, tmp_path):
    """A document, run. Pass: its events say what was read and written, refused rows too."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "a.json").write_text('{"city": "Oslo", "cents": 250}\nno json\n{"city": "Rome"}\n')
    file = tmp_path / "events.jsonl"
    pipeline.document(**document(given, file=str(file)))
    pipeline.run()
    events = told(file)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    end = events[-1]
    assert end["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 3
    rows = {
        each["name"]: each["outputFacets"]["outputStatistics"]["rowCount"]
        for each in end["outputs"]
    }
    assert rows == {str(given / "out"): 2, str(given / "bad"): 1}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "either url or file"),
        ({"url": "http://a", "file": "b"}, "either url or file"),
        ({"url": "ftp://a"}, "expected a URL"),
        ({"url": "https://me:mine@a"}, "write `token`"),
        ({"url": "https://a b/mine"}, "its host is none"),
        ({"url": "https://a%zz"}, "its host is none"),
        ({"url": "https://a/mine"}, "write `endpoint`"),
        ({"url": "https://a?mine=1"}, "write `endpoint`"),
        ({"file": "b", "token": "t"}, "goes with `url`"),
    ],
)
def test_wrong_options_are_told(tmp_path, options, why):
    """Pass: with the reason, at the document's line."""
    with pytest.raises(DocumentError, match=why) as refused:
        plan_of(tmp_path, **options)
    assert "mine" not in str(refused.value)
