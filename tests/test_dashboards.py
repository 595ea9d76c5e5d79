"""The dashboard and the alerts of `contrib`: they parse, and name only metrics that a run serves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import promql_parser
import pytest
from mainstem.observation.metrics import Metrics
from mainstem.plan.build import make_plan
from ruamel.yaml import YAML

CONTRIB = Path(__file__).parent.parent / "contrib"
DOCUMENT = """
pipeline: shop
sources: {lines: {use: files, with: {path: in, format: message}}}
operators: {order: {use: decode, from: lines, with: {format: json, schema: "id BIGINT"}, on_rejected: drop}}
sinks: {out: {use: console, from: order}}
"""
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def served() -> str:
    """What a run serves once it has told of everything, in the form of OpenMetrics."""
    plan = make_plan(DOCUMENT)
    about = {"pipeline": "shop", "query": plan.queries[0].name}
    metrics = Metrics(0)
    metrics.started(plan)
    metrics.loading({**about, "event": "loading"})
    metrics.doing({**about, "batch": 0, "seconds": 3.0})
    at = "2026-11-29T12:00:00+00:00"
    batch = {
        "at": at,
        "seconds": 2.0,
        "nodes": {"lines": {"rows": 3}, "order": {"rows": 2, "rejected": 1}, "out": {"rows": 2}},
        "late_rows": 1,
        "state_rows": 4,
        "watermark": at,
        "latest": {"order": "2026-11-29T11:59:00+00:00"},
        "idle": [],
        "lag": {"lines": {"rows": 1, "seconds": 2.0}},
    }
    metrics.batch({**about, **batch})
    helper = {"node": "lines", "helper": "lines-0", "state": "running", "rows": 1}
    metrics.helper({"pipeline": "shop", **helper, "gauges": {"log_bytes": 1}})
    request = Request(metrics.url, headers={"Accept": OPEN_METRICS})
    with urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text: str = answer.read().decode()
    metrics.ended({})
    return text


def names_of(text: str) -> set[str]:
    return set(re.findall(r"^(mainstem_\w+)\{", text, re.MULTILINE))


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CONTRIB / "grafana/mainstem.json").read_text())[
        "panels"
    ]
    return found


def queries() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"].replace("$pipeline", ".*") for target in panel["targets"])


def alerts() -> list[dict[str, Any]]:
    document = YAML(typ="safe").load(CONTRIB / "prometheus/mainstem.yml")
    return [rule for group in document["groups"] for rule in group["rules"]]


def test_the_dashboard_names_what_is_served_and_all_of_it(served):
    """Pass: every metric of a run is on it (a histogram by its buckets), and nothing else; each query parses."""
    for query in queries():
        promql_parser.parse(query)
    named = {name for query in queries() for name in re.findall(r"mainstem_\w+", query)}
    told = {name for name in names_of(served) if not name.endswith(("_sum", "_count", "_created"))}
    told = {name for name in told if f"{name}_bucket" not in told}
    assert named - told == {"mainstem_idle"}, "only a node with idle_after tells it"
    assert told - named == set()


def test_panels_do_not_lie_on_each_other():
    """Pass: each place of the grid is that of one panel at most, within 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        places = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & places
        assert max(x for x, _ in places) < 24
        taken |= places
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_alerts_name_what_is_served(served):
    """Pass: each parses, and says what is the matter."""
    assert len(alerts()) > 5
    for rule in alerts():
        promql_parser.parse(rule["expr"])
        named = set(re.findall(r"mainstem_\w+", rule["expr"]))
        assert named <= names_of(served), rule["alert"]
        assert rule["annotations"]["summary"]
        labels = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert labels <= {"pipeline", "query", "node", "helper", "source", "instance"}


def test_latency_is_from_the_latest_event_to_the_end_of_the_batch(served):
    """Pass: a batch that ended at 12:00:02 with events up to 11:59 is a minute and two seconds behind."""
    assert re.search(r'mainstem_sink_latency_seconds_sum\{.*sink="out"\} 62\.0', served)
    assert 'mainstem_batch_in_hand_seconds{pipeline="shop"' in served
    assert re.search(r'mainstem_guarantee\{deliver="\w+",level="[\w-]+",pipeline="shop"', served)
    assert served.rstrip().endswith("# EOF")
