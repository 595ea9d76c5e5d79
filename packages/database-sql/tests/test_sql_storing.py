"""Files of rows that were read: what a disk has changed is found."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from mainstem import PipelineError, Verifiable
from mainstem.columns import Column
from mainstem.durable import DamagedError
from mainstem.plan.build import make_plan
from mainstem_database_sql.source import storing
from mainstem_database_sql.source.values import schema_of

COLUMNS = [Column("id", "bigint"), Column("name", "string"), Column("at", "timestamp")]


@pytest.fixture
def file(tmp_path):
    """A file of five rows."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"id": n, "name": f"n{n}", "at": at} for n in range(5)]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema_of(COLUMNS))
    found = tmp_path / "rows.parquet"
    assert storing.write(found, COLUMNS, "t", [batch], "sql.poll") == 5
    return found


def read(file):
    rows = [r for b in storing.read(file, 0, 5, schema_of(COLUMNS)) for r in b.to_pylist()]
    return rows, storing.count(file), storing.misfit(file, COLUMNS, "t")


@pytest.mark.in_turn
def test_every_changed_bit_is_found_or_harmless(file):
    """Pass: other rows than were written are never read, and nearly all errors are ours, which name the file."""
    right, data = read(file), file.read_bytes()
    found = 0
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        try:
            assert read(file) == right, bit
        except PipelineError as error:
            found += str(file) in str(error)
    assert found > 6 * len(data)


def test_a_file_that_is_cut_is_damaged(file):
    """Pass: at any length, and it says what to do."""
    data = file.read_bytes()
    for size in range(len(data)):
        file.write_bytes(data[:size])
        with pytest.raises(DamagedError, match="--fresh"):
            storing.count(file)


def test_verify_reads_the_rows_whole(file, tmp_path):
    """Pass: what a changed page means is told before anybody reads it; a whole file is not mentioned."""
    source = (
        make_plan(
            {
                "pipeline": "test",
                "trigger": {"available_now": True},
                "sources": {
                    "rows": {
                        "use": "sql",
                        "with": {"url": "sqlite:///x.db", "table": "t", "schema": "id BIGINT"},
                    }
                },
                "sinks": {"out": {"use": "console", "from": "rows"}},
            }
        )
        .nodes["rows"]
        .component
    )
    assert isinstance(source, Verifiable)
    assert list(source.damage(tmp_path)) == []
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(data)
    (told,) = source.damage(tmp_path)
    assert str(file) in told
