"""A node that is idle does not hold back the query's watermark: on Spark, by the control stream."""

from __future__ import annotations

import json

import pytest
from mainstem import Pipeline
from mainstem_testkit import wait_for

pytestmark = pytest.mark.usefixtures("looking")


def files(name, **watermark):
    options = {"path": f"./{name}", "format": "jsonlines", "schema": "at TIMESTAMP"}
    return {
        "use": "files",
        "with": options,
        "watermark": {"column": "at", "delay": "1 minute", **watermark},
    }


def feed(pipeline, folder, name, *times):
    hidden = pipeline.folder / f".{folder}-{name}"
    hidden.write_text("".join(json.dumps({"at": f"2026-01-01T{at}:00Z"}) + "\n" for at in times))
    hidden.rename(pipeline.folder / folder / name)


@pytest.mark.in_turn
def test_an_idle_node_lets_the_others_go_on(pipeline):
    """Pass: minutes that the busy node alone has passed come out; what the idle one then brings that is
    older than the watermark is late, what is not is counted; facts and control rows tell of it.
    """
    for name in ("busy", "quiet"):
        (pipeline.folder / name).mkdir()
    pipeline.document(
        trigger={"every": "200 milliseconds"},
        sources={"busy": files("busy"), "quiet": files("quiet", idle_after="2 seconds")},
        operators={"minute": {"use": "minutes", "from": ["busy", "quiet"]}},
        sinks={"out": pipeline.sink("out", "minute")},
    )

    def found():
        return sorted((row["minute"], row["n"]) for row in pipeline.rows("out"))

    feed(pipeline, "busy", "1", "12:00", "12:05", "12:10")
    running = Pipeline(pipeline.file).start()
    try:
        wait_for(found, 120)
        assert found() == [("12:00", 1), ("12:05", 1)]
        assert any(facts["idle"] == ["quiet"] for facts in running.progress)
        feed(pipeline, "quiet", "1", "12:04", "12:09", "12:10")
        wait_for(lambda: sum(facts["late_rows"] for facts in running.progress), 120)
        feed(pipeline, "busy", "2", "12:30")
        wait_for(lambda: len(found()) >= 4, 120)
    finally:
        running.stop()
    assert found() == [("12:00", 1), ("12:05", 1), ("12:09", 1), ("12:10", 2)]
    moved = sorted(pipeline.folder.glob("checkpoints/test/nodes/quiet/control/minute/*.json"))
    assert moved[0].stem[9:15] == "121000"
    # The control rows are counted nowhere.
    totals = running.wait()["queries"]["minute"]["nodes"]
    none = {"rejected": 0}
    assert (totals["busy"], totals["quiet"]) == ({"rows": 4, **none}, {"rows": 3, **none})
