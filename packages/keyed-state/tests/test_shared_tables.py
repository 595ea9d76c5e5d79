"""Tables that all keys share: changed by `share` alone, seen by every step, kept over restarts."""

from __future__ import annotations

import polars as pl
import pytest
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Table
from mainstem_keyed_state.testing import Driver, Paged


class Above(Logic):
    """Passes rows above the highest of some limits, and counts them by key."""

    ports = {
        "input": pl.Schema({"k": pl.String(), "v": pl.Int64()}),
        "limits": pl.Schema({"l": pl.Int64()}),
    }
    outputs = {
        MAIN: pl.Schema({"k": pl.String(), "n": pl.Int64()}),
        "seen": pl.Schema({"l": pl.Int64()}),
    }
    tables = {
        "counts": Table(pl.Schema({"n": pl.Int64()})),
        "limits": Table(pl.Schema({"l": pl.Int64()}), shared=True),
    }
    everywhere = ("limits",)

    def share(self, step):
        rows = step.rows["limits"].select(KEY, "l")
        whole = pl.concat([step.state["limits"], rows]).unique().sort("l")
        return Done({"seen": rows.select("l")}, {"limits": whole})

    def step(self, step):
        limit = step.state["limits"]["l"].max() or 0
        rows = step.rows["input"].filter(pl.col("v") > limit)
        came = rows.group_by(KEY).agg(pl.col("k").first(), pl.len().cast(pl.Int64).alias("came"))
        found = came.join(step.state["counts"], on=KEY, how="left").with_columns(
            (pl.col("n").fill_null(0) + pl.col("came")).alias("n")
        )
        kept = step.state["counts"].join(found, on=KEY, how="anti", maintain_order="left")
        counts = pl.concat([kept, found.select(KEY, "n")])
        return Done({MAIN: found.select("k", "n")}, {"counts": counts})


class Next(Above):
    """A version that keeps the same."""

    version = 2

    def migrate(self, state, version):
        return dict(state)


@pytest.mark.parametrize("kind", [Driver, Paged])
def test_every_step_sees_them(kind):
    """Pass: rows of a batch come after what it shares, keys of all pages see it, a restart keeps it; it comes out once."""
    driver = kind(Above(), {"input": ["k"], "limits": ["l"]}, pages=3)
    keys = [f"k{n}" for n in range(40)]
    rows = [{"k": key, "v": v} for key in keys for v in (5, 15)]
    driver.batch({"input": rows})
    assert {r["n"] for r in driver.outputs[MAIN]} == {2}
    driver.batch({"limits": [{"l": 10}, {"l": 3}]})
    driver.restart()
    found = driver.batch({"input": rows})
    assert sorted((r["k"], r["n"]) for r in found[MAIN]) == sorted((key, 3) for key in keys)
    driver.restart()
    found = driver.batch({"input": rows, "limits": [{"l": 20}]})
    assert not found[MAIN]
    assert sorted(r["l"] for r in driver.outputs["seen"]) == [3, 10, 20]
    assert sorted(r["l"] for r in driver.rows("limits")) == [3, 10, 20]


def test_another_version_reads_them():
    """Pass: `migrate` is given them too, by page and by themselves."""

    driver = Paged(Above(), {"input": ["k"], "limits": ["l"]})
    keys = [f"k{n}" for n in range(20)]
    driver.batch({"limits": [{"l": 1}], "input": [{"k": key, "v": 5} for key in keys]})
    driver.restart(Next())
    found = driver.batch({"input": [{"k": key, "v": v} for key in keys for v in (1, 5)]})
    assert {row["n"] for row in found[MAIN]} == {2}


def test_others_must_not_be_shared():
    """Pass: told with the table."""

    class Wrong(Above):
        def share(self, step):
            rows = step.rows["limits"].select(KEY, pl.col("l").alias("n"))
            return Done({}, {"counts": rows})

    driver = Paged(Wrong(), {"input": ["k"], "limits": ["l"]})
    with pytest.raises(ValueError, match="'counts', which it does not declare as shared"):
        driver.batch({"limits": [{"l": 1}]})


def test_a_step_must_not_change_them():
    """Pass: told with the table."""

    class Wrong(Above):
        def step(self, step):
            return Done({}, {"limits": step.state["limits"].clear()})

    driver = Paged(Wrong(), {"input": ["k"], "limits": ["l"]})
    driver.batch({"limits": [{"l": 1}]})
    with pytest.raises(ValueError, match="'limits', which `share` alone changes"):
        driver.batch({"input": [{"k": "x", "v": 1}]})
