"""What docs/writing-a-stateful-operator.md prints runs as it is printed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mainstem_testkit import OperatorSuite, install  # noqa: F401  the page's suite is one

PAGE = (Path(__file__).parents[3] / "docs" / "writing-a-stateful-operator.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
MODULE, SUITE = (text for language, text in BLOCKS if language == "python")
ENTRY = next(text for language, text in BLOCKS if language == "toml")
START = datetime(2026, 1, 1, tzinfo=UTC)


exec(SUITE)
TestSilent = pytest.mark.slow(pytest.mark.usefixtures("silent")(locals()["TestSilent"]))


@pytest.fixture(scope="module")
def silent(tmp_path_factory: Any) -> Iterator[None]:
    """Install the plugin of the page where workers of any session of these tests look for it."""
    group, line = ENTRY.splitlines()
    word, value = line.split(" = ")
    assert group == '[project.entry-points."mainstem.operators"]'
    value = value.strip('"')
    shared = Path(os.environ["MAINSTEM_KEYED_TESTS"])
    (shared / f"{value}.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        site = tmp_path_factory.mktemp("site")
        install(patch, site, "mainstem-silent", operators={word: value})
        yield
    sys.modules.pop(value, None)


def lines_of_code() -> int:
    return sum(1 for line in MODULE.splitlines() if line.strip())


def test_the_example_is_as_short_as_it_says() -> None:
    """Pass: at most 40 lines, blank ones aside."""
    assert lines_of_code() <= 40


@pytest.mark.in_turn
def test_the_example_tells_of_silent_sensors(silent: None, trial: Any) -> None:
    """Pass: a sensor is told of once, when the watermark is past its last reading and the time; a reading
    without a sensor is refused, and a late one told."""
    document = {
        "pipeline": "test",
        "trigger": {"available_now": True},
        "sources": {
            "readings": {
                "use": "files",
                "with": {
                    "path": "./in",
                    "format": "jsonlines",
                    "schema": "sensor STRING, at TIMESTAMP, celsius DOUBLE",
                },
                "watermark": {"column": "at", "delay": "1 second"},
            }
        },
        "operators": {
            "quiet": {"use": "silent", "from": "readings", "with": {"after": "1 minute"}}
        },
        "sinks": {
            "out": {"use": "console", "from": "quiet"},
            "late": {"use": "console", "from": "quiet.late"},
            "bad": {"use": "console", "from": "quiet.rejected"},
        },
    }

    def read(sensor: str | None, seconds: int) -> dict[str, Any]:
        at = START + timedelta(seconds=seconds)
        return {"sensor": sensor, "at": at.isoformat(), "celsius": 20.0}

    with trial(document, "quiet") as tried:
        tried.feed("readings", [read("a", 0), read("b", 0), read(None, 0), read("a", 10)])
        tried.batch()
        tried.feed("readings", [read("a", 50)])
        tried.batch()
        assert tried.rows("quiet") == []
        tried.feed("readings", [read("c", 62)])
        tried.batch()
        tried.batch()
        assert [row["sensor"] for row in tried.rows("quiet")] == ["b"]
        assert {datetime.fromisoformat(row["at"]) for row in tried.rows("quiet")} == {START}
        (refused,) = tried.rows("bad")
        assert refused["reason"] == "sensor is null"
        assert tried.rows("late") == []
        tried.feed("readings", [read("b", 30), read("c", 63)])
        tried.batch()
        assert [row["sensor"] for row in tried.rows("late")] == ["b"]
        tried.advance("readings", START + timedelta(hours=1))
        tried.batch()
        assert sorted(row["sensor"] for row in tried.rows("quiet")[1:]) == ["a", "c"]
