"""Killed at each of its crash points, and started again: nothing is lost, doubled or changed."""

from __future__ import annotations

import json
import signal

import pytest
from test_sql_source_driver import Apart, Place, Processes, plain

TABLE = "CREATE TABLE {t} (id BIGINT PRIMARY KEY, name VARCHAR(400))"
ROWS = 12
MODES = {
    "snapshot": {"max_rows": 5},
    "poll": {"mode": "poll", "column": "id", "settle": "1 ms", "every": "1 ms", "max_rows": 5},
}
POINTS = {
    "snapshot": [
        *(f"sql.snapshot-{step}" for step in ("before-write", "in-write", "after-write", "after-fsync")),
        *(f"sql.snapshot-{step}" for step in ("after-rename", "after-folder-fsync", "after-mark")),
        "run.after-batch",
    ],
    "poll": [
        *(f"sql.poll-{step}" for step in ("before-write", "in-write", "after-write", "after-fsync")),
        *(f"sql.poll-{step}" for step in ("after-rename", "after-folder-fsync")),
        "run.after-batch",
        *(f"sql.poll-{step}" for step in ("before-remove", "after-remove")),
    ],
}  # fmt: skip


def world(place):
    place.ask(TABLE)
    place.rows(0, ROWS)


def names(place):
    """What the table holds, by number."""
    return dict(place.ask("SELECT id, name FROM {t}"))


@pytest.fixture(scope="module")
def processes():
    with Processes() as made:
        yield made


def killed(processes, folder, place, mode, where):
    """Run until the crash point, change the table, run again; return why that is wrong, if it is."""
    world(place)
    before = names(place)
    reading = Apart(folder, plain(place, **MODES[mode]))
    code, told = processes.read(reading, MAINSTEM_FAILPOINT=where)
    if code != -signal.SIGKILL:
        return f"{where}: not killed: {code} {told}"
    batches = {file.name: file.read_text() for file in (folder / "out").glob("[0-9]*")}
    taken = any(reading.home.glob("snapshot-*.parquet"))
    place.ask("UPDATE {t} SET name = 'changed'")
    place.rows(ROWS, ROWS + 3)
    reading.batches()
    found = [row["id"] for row in reading.out()]
    if len(found) != len(set(found)):
        return f"{where}: doubled: {sorted(found)}"
    for batch, text in batches.items():
        if (folder / "out" / batch).read_text() != text:
            return f"{where}: batch {batch} was read otherwise"
    if any(reading.home.rglob("*.new")):
        return f"{where}: unfinished files are left"
    if mode == "poll":
        expected = set(range(ROWS + 3))
        return "" if set(found) == expected else f"{where}: lost {expected - set(found)}"
    state = before if taken else names(place)
    if {row["id"]: row["name"] for row in reading.out()} != state:
        return f"{where}: not the table as it was {'then' if taken else 'now'}"
    return ""


def all_killed(processes, places, tmp_path, mode, passes):
    wrong = []
    for point in POINTS[mode]:
        for number in passes:
            where = f"{point}:{number}"
            folder = tmp_path / where.replace(":", "-")
            with places(folder) as place:
                wrong.append(killed(processes, folder, place, mode, where))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.in_turn
def test_the_points_are_all_that_a_reading_passes(mode, processes, tmp_path):
    with Place("sqlite", f"sqlite:///{tmp_path}/table.db") as place:
        world(place)
        trace = tmp_path / "trace"
        reading = Apart(tmp_path / "checkpoint", plain(place, **MODES[mode]))
        code, told = processes.read(reading, MAINSTEM_FAILPOINT_TRACE=str(trace))
        assert code == 0, told
    assert sorted(trace.read_text().split()) == sorted(POINTS[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.in_turn
def test_a_kill_at_each_crash_point_does_no_harm(mode, processes, tmp_path):
    def place(folder):
        return Place("sqlite", f"sqlite:///{folder}.db")

    all_killed(processes, place, tmp_path, mode, [1] if mode == "snapshot" else [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("server", ["postgres", "mariadb"])
@pytest.mark.parametrize("mode", MODES)
def test_kills_with_a_server_do_no_harm(mode, server, processes, request, tmp_path):
    url = request.getfixturevalue(server).url
    passes = [1] if mode == "snapshot" else [1, 2]
    all_killed(processes, lambda _folder: Place(server, url), tmp_path, mode, passes)


@pytest.mark.in_turn
def test_a_kill_leaves_rows_that_no_batch_has_to_be_read_anew(processes, tmp_path):
    """What was stored and whose offset Spark never had is read again, as the table is then."""
    with Place("sqlite", f"sqlite:///{tmp_path}/table.db") as place:
        world(place)
        reading = Apart(tmp_path / "checkpoint", plain(place, **MODES["poll"]))
        code, _ = processes.read(reading, MAINSTEM_FAILPOINT="sql.poll-after-folder-fsync")
        assert code == -signal.SIGKILL
        assert len(list(reading.home.rglob("*.parquet"))) == 1
        place.ask("DELETE FROM {t} WHERE id = 0")
        reading.batches()
        assert [row["id"] for row in reading.out()] == list(range(1, ROWS))
        assert len(list(reading.home.rglob("*.parquet"))) == 1, "what was left is still there"
        assert json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text())["segment"] == 1
