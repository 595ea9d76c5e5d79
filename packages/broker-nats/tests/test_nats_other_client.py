"""A reader in C over the system's libnats, neither ours nor nats-py, reads what our sinks publish."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from mainstem_testkit import crash_at_every_point
from mainstem_testkit.plugin import required
from nsink_streams import make

SOURCE = Path(__file__).parent / "nsink_reader.c"
QUERY = (
    "SELECT CAST(concat('k', value) AS BINARY) AS key, CAST(value AS BINARY) AS value, "
    "map('shop', CAST('nörd' AS BINARY)) AS headers, position FROM input"
)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The reader, compiled; the tests are skipped without a compiler or libnats's headers."""
    made = tmp_path_factory.mktemp("nats") / "nsink_reader"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", made, "-lnats"]
    missing = "gcc" if shutil.which("gcc") is None else ""
    if not missing and not Path("/usr/include/nats/nats.h").exists():
        missing = "libnats-dev"
    if missing:
        told = f"server missing: libnats: {missing} is not installed (services/apt.txt)"
        (pytest.fail if required("libnats") else pytest.skip)(told)
    subprocess.run(command, check=True)
    return made


def parsed(text):
    """Return subject, id, header and body of each message that the reader printed."""
    rows = [line.split(" ") for line in text.splitlines()]
    return [tuple(None if word == "-" else bytes.fromhex(word) for word in row) for row in rows]


@pytest.fixture
def read(program, nats):
    def read(stream):
        argv = [program, "stream", nats.url, stream, f"{stream}.>"]
        return parsed(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)

    return read


def document(pipeline, sink):
    pipeline.document(
        operators={
            "rows": {
                "use": "sql",
                "from": "lines",
                "with": {
                    "query": QUERY,
                    "schema": "key BINARY, value BINARY, headers MAP<STRING, BINARY>, position STRING",
                    "identity": ["position"],
                },
            }
        },
        sinks={"out": {**sink, "from": "rows"}},
    )
    return pipeline


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_reader_in_c_finds_each_id_once_after_kills(nats, pipeline, read):
    """Pass: the run is killed before and after the stream has acknowledged, and run again: for libnats each
    row is there once, with subject, header and an id of its own."""
    stream = ""
    lines = [str(number) for number in range(40)]
    pipeline.feed("1", lines)

    def before(copy):
        nonlocal stream
        stream = make(nats.url)
        options = {"servers": nats.url, "stream": stream, "subject": f"{stream}.{{key}}"}
        document(copy, {"use": "jetstream", "deliver": "idempotent", "with": options})

    def oracle(_):
        found = read(stream)
        assert Counter(body for *_, body in found) == Counter(line.encode() for line in lines)
        ids = Counter(name for _, name, _, _ in found)
        assert len(ids) == len(lines)
        assert set(ids.values()) == {1}
        for subject, name, shop, body in found:
            assert subject == f"{stream}.k{body.decode()}".encode()
            assert len(bytes.fromhex(name.partition(b"-")[0].decode())) == 16
            assert shop == "nörd".encode()

    before(pipeline)
    passed = crash_at_every_point(
        pipeline,
        oracle,
        before=before,
        points=lambda found: [
            p for p in found if p in ("egress.after-send", "egress.after-answers")
        ],
    )
    assert len(passed) == 2


@pytest.mark.timeout(400)
@pytest.mark.in_turn
def test_a_reader_in_c_gets_what_goes_to_core_nats(nats, pipeline, program):
    """Pass: one that listens gets each message once, in order of its partition, with its header and no id."""
    stream = f"core{abs(hash(pipeline.folder)) % 10**8}"
    reader = subprocess.Popen(
        [program, "core", nats.url, f"{stream}.>", "40"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stderr.readline() == "ready\n"
    lines = [str(number) for number in range(40)]
    pipeline.feed("1", lines)
    options = {"servers": nats.url, "subject": f"{stream}.{{key}}", "partitions": 1}
    try:
        document(pipeline, {"use": "nats", "with": options}).run()
        found = parsed(reader.communicate(timeout=60)[0])
    finally:
        reader.kill()
    assert [body for *_, body in found] == [line.encode() for line in lines]
    assert {(name, shop) for _, name, shop, _ in found} == {(None, "nörd".encode())}
    assert found[3][0] == f"{stream}.k3".encode()


def test_a_reader_in_c_sees_no_stream_where_there_is_none(nats, program):
    """Pass: it fails, so that the tests above can't pass on nothing."""
    argv = [program, "stream", nats.url, "nowhere", ">"]
    assert subprocess.run(argv, check=False, capture_output=True).returncode == 1
