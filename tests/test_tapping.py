"""Rows that pass a node, for who looks at a run: what is in a batch, and nothing counted twice for it."""

from __future__ import annotations

import pytest
from mainstem import PipelineError
from mainstem.observation.samples import Samples
from mainstem.plan.build import make_plan
from mainstem.testing.trial import Trial

SECRET = "xyzzy-4711"
DOCUMENT = """
pipeline: shop
checkpoint: {folder}/unused
sources:
  lines: {{use: files, with: {{path: {folder}, format: message}}}}
operators:
  order:
    use: decode
    from: lines
    with: {{format: json, schema: "id BIGINT NOT NULL, name STRING, at TIMESTAMP"}}
    watermark: {{column: at, delay: 1 minute}}
  kept: {{use: select, from: order, with: {{where: "name <> '${{env:SHOP_SECRET}}x'"}}}}
  reasons: {{use: select, from: order.rejected, with: {{columns: {{told: CAST(payload AS STRING)}}}}}}
  by_minute:
    use: aggregate
    from: order
    with: {{by: [], window: {{on: at, tumbling: 1 minute}}, columns: {{orders: count(*)}}}}
sinks:
  out: {{use: console, from: kept}}
  minutes: {{use: console, from: by_minute}}
  told: {{use: console, from: reasons}}
  bad: {{use: console, from: order.rejected}}
"""


@pytest.fixture
def shop(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    plan = make_plan(DOCUMENT.format(folder=tmp_path))

    def begin(**more):
        trial = Trial(plan, tmp_path, spark, **more)
        trial.samples._clock = lambda: (
            0.0
        )  # who asked is taken to look on, however slow the machine
        return trial

    return begin


def orders(*numbers):
    return [f'{{"id": {n}, "name": "{SECRET}", "at": "2026-11-29T12:00:00Z"}}' for n in numbers]


def rows(trial, name, after=0):
    found = trial.samples.ask(name, after, 2)
    return [row["row"] for row in found["rows"]]


@pytest.mark.in_turn
def test_who_looks_sees_some_rows_of_each_batch_and_nothing_is_counted_twice(shop):
    """Pass: of an operator, a sink and what has state; secrets are hidden, and what was refused too."""
    seen = ("kept", "out", "by_minute", "order.rejected", "bad", "reasons", "told")
    with shop() as trial:
        trial.feed("lines", orders(1, 2, 3))
        trial.batch()
        assert [rows(trial, name) for name in seen] == [[]] * 7, "nobody looked"
        trial.feed("lines", [*orders(4, 5, 6), '{"id": "abc"}'])
        trial.batch()
        kept = rows(trial, "kept")
        assert [row["id"] for row in kept] == [4, 5]
        assert {row["at"] for row in kept} == {"2026-11-29T12:00:00.000000Z"}
        assert {row["name"] for row in kept} == {"${env:SHOP_SECRET}"}
        assert [row["id"] for row in rows(trial, "out")] == [4, 5]
        for name in ("order.rejected", "bad"):
            (bad,) = rows(trial, name)
            assert "--show-rows" in bad["payload"]
            assert "abc" not in str(bad)
        for name in ("reasons", "told"):
            (bad,) = rows(trial, name)
            assert "--show-rows" in bad["row"]
            assert "abc" not in str(bad)
        told = [facts["nodes"] for facts in trial.facts if facts["rows_in"] == 4]
        assert len(told) == 2, "a query for each anchor"
        for nodes in told:
            assert (nodes["lines"]["rows"], nodes["order"]["rows"]) == (4, 3)
            assert nodes["order"]["rejected"] == 1
        assert all(facts["state_rows"] <= 1 for facts in trial.facts)
        # Each batch once, and no more when nobody looks.
        after = trial.samples.ask("kept", 0)["last"]
        assert rows(trial, "kept", after) == []


@pytest.mark.in_turn
def test_what_was_refused_is_shown_where_a_run_shows_rows(shop):
    """Pass: the newest first, with reason and payload, whether or not somebody looks."""
    with shop(show_rows=True) as trial:
        trial.batch()
        assert rows(trial, "order.rejected") == []
        trial.feed("lines", [*orders(1), *(f'{{"id": "a{n}"}}' for n in range(3))])
        trial.batch()
        trial.feed("lines", ["nonsense"])
        trial.batch()
        found = trial.samples.refused("order")
        assert len(found) == 4
        assert found[0]["payload"] == "nonsense"
        assert found[0]["batch"] > found[1]["batch"]
        assert {row["payload"] for row in found[1:]} == {f'{{"id": "a{n}"}}' for n in range(3)}
        assert all(row["reason"] for row in found)
        assert "nonsense" in str(rows(trial, "order.rejected"))


def test_what_can_not_be_seen_is_told(tmp_path):
    """Pass: what is not there, with the nearest name; of what stays inside Spark, where to look instead."""
    samples = Samples()
    assert samples.ask("anything") == {"rows": [], "last": 0}, "the run has not begun"
    text = DOCUMENT.replace("${{env:SHOP_SECRET}}", "").format(folder=tmp_path)
    before, _, after = text.partition("  out:")
    text = f"{before}{after[after.index('  minutes:') : after.index('  told:')]}"
    samples.begin(make_plan(text.replace("use: decode", "use: decode\n    on_rejected: drop")))
    with pytest.raises(PipelineError, match="Did you mean 'by_minute'"):
        samples.ask("by_minut")
    with pytest.raises(PipelineError, match="until by_minute has taken them in"):
        samples.ask("order")
    with pytest.raises(PipelineError, match="no query reads kept"):
        samples.ask("kept")
    assert samples.ask("by_minute") == {"rows": [], "last": 0}


def test_who_does_not_ask_again_is_forgotten(tmp_path):
    """Pass: ten seconds after the last question batches leave nothing any more."""
    clock = [0.0]
    samples = Samples(clock=lambda: clock[0])
    samples.begin(make_plan(DOCUMENT.replace("${{env:SHOP_SECRET}}", "").format(folder=tmp_path)))
    samples.ask("kept", most=7)
    (query,) = [q for q in ("lines", "by_minute") if samples.wanted(q)]
    assert samples.wanted(query) == {"kept": 7}
    clock[0] = 9.0
    samples.put("kept", 3, [{"id": 1}, {"id": 2}])
    assert [row["row"]["id"] for row in samples.ask("kept")["rows"]] == [1, 2]
    assert [row["row"]["id"] for row in samples.ask("kept", after=1)["rows"]] == [2]
    clock[0] = 19.5
    assert samples.wanted(query) == {}
