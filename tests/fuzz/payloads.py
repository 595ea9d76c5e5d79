"""Payloads for `decode`: some right, most of them not, by mutation of right ones and from nothing."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mainstem_testkit.pipelines import PipelineFolder

_PIECE = 50_000
#: Longer than this for one format counts as hanging, in seconds.
_LONG = 1800.0
#: What parsers stumble over.
ODD = (
    b"", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"NaN", b"-Infinity", b"1e999", b"-0",
    b"9223372036854775808", b"0x10", b"01", b"1_000", b"\\u0000", b"\\ud800", b"\\", b'"', b"'", b",", b";", b"\r\n",
    b"\n", b"\r", b"\t", b"{", b"}", b"[", b"]", b":", b"null", b"true", b"TRUE", b"2026-02-30T25:61:61Z",
    b"+294277-01-01T00:00:00Z", b"[" * 2_000, b'{"a":' * 1_500, b"9" * 5_000, b"\xf0\x9f\x92\xa9", b"\x1b[31m",
    b"\xe2\x80\xa8", b"a" * 70_000,
)  # fmt: skip
SCHEMA = (
    "n BIGINT NOT NULL, name STRING, price DECIMAL(12,2), at TIMESTAMP, day DATE, ok BOOLEAN, x DOUBLE, "
    "blob BINARY"
)
NESTED = f"{SCHEMA}, tags ARRAY<STRING>, deep STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>, m MAP<STRING, INT>"


def _row(chance: random.Random) -> dict[str, Any]:
    word = "".join(chance.choices(string.printable, k=chance.randrange(12)))
    return {
        "n": chance.randrange(-(2**63), 2**63),
        "name": word,
        "price": round(chance.uniform(-1e6, 1e6), 2),
        "at": f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}T10:11:12.5Z",
        "day": "2026-05-01",
        "ok": chance.random() < 0.5,
        "x": chance.random(),
        "blob": "AAEC",
    }


def _json(chance: random.Random) -> bytes:
    more = {"tags": ["a", None], "deep": {"a": 1, "b": [{"c": "x"}]}, "m": {"k": 1}}
    return json.dumps({**_row(chance), **more}, ensure_ascii=chance.random() < 0.5).encode()


def _csv(chance: random.Random) -> bytes:
    cells = ['"' + str(v).replace('"', '""') + '"' for v in _row(chance).values()]
    return ",".join(cells).encode()


def _debezium(chance: random.Random) -> bytes:
    row = {"n": chance.randrange(100), "name": "x", "price": "1.5"}
    kind = chance.choice("cudrtm")
    told = {
        "op": kind,
        "before": row if kind in "ud" else None,
        "after": None if kind == "d" else row,
    }
    told |= {"source": {"lsn": chance.randrange(10**9)}, "ts_ms": 1_700_000_000_000}
    return json.dumps({"payload": told} if chance.random() < 0.5 else told).encode()


def mutated(right: bytes, chance: random.Random) -> bytes:
    """Return a payload with one to four changes: cut, flipped, doubled, with something odd in it."""
    found = bytearray(right)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(found) + 1)
        what = chance.randrange(6)
        if what == 0:
            del found[at:]
        elif what == 1 and found:
            found[at % len(found)] = chance.randrange(256)
        elif what == 2:
            found[at:at] = chance.choice(ODD)
        elif what == 3:
            found[at:at] = found[at // 2 : at]
        elif what == 4:
            del found[at : at + chance.randrange(1, 20)]
        else:
            found[at:at] = chance.randbytes(chance.randrange(1, 9))
        if len(found) > 200_000:
            break
    return bytes(found)


def payloads(
    right: Callable[[random.Random], bytes], chance: random.Random, count: int
) -> Iterator[bytes | None]:
    """Yield payloads: a tenth right, a fifth from nothing, a few null, the others mutated."""
    for _ in range(count):
        which = chance.random()
        if which < 0.01:
            yield None
        elif which < 0.1:
            yield right(chance)
        elif which < 0.3:
            yield chance.randbytes(chance.randrange(200))
        else:
            yield mutated(right(chance), chance)


#: Each format: a right payload, and the options of `decode`.
FORMATS: Mapping[str, tuple[Callable[[random.Random], bytes], Mapping[str, Any]]] = {
    "json": (_json, {"format": "json", "schema": NESTED}),
    "json, lax": (_json, {"format": "json", "schema": NESTED, "types": "null", "extra": "reject"}),
    "json, variant": (_json, {"format": "json"}),
    "csv": (_csv, {"format": "csv", "schema": SCHEMA}),
    "debezium-json": (
        _debezium,
        {
            "format": "debezium-json",
            "schema": "n BIGINT NOT NULL, name STRING, price DECIMAL(12,2)",
            "key": ["n"],
            "sequence": "lsn",
            "keep": {"lsn": "position"},
        },
    ),
}


def decode(name: str, count: int, seed: int, folder: Path) -> str:
    """Take payloads of a format through `decode` in a pipeline of its own; return what came of them.

    Raises:
        AssertionError: it failed, or rows in are not rows out and rejected.
    """
    right, options = FORMATS[name]
    chance = random.Random(f"{seed} {name}")
    pipeline = PipelineFolder(folder)
    for number, start in enumerate(range(0, count, _PIECE)):
        some = list(payloads(right, chance, min(_PIECE, count - start)))
        position = [f"{start + n:012}" for n in range(len(some))]
        table = pa.table({"value": pa.array(some, pa.binary()), "position": position})
        hidden = folder / ".next"
        pq.write_table(table, hidden)
        hidden.rename(folder / "in" / f"{number:04}.parquet")
    read = {"path": "./in", "format": "parquet", "schema": "value BINARY, position STRING"}
    pipeline.document(
        sources={"raw": {"use": "files", "with": read}},
        operators={"row": {"use": "decode", "from": "raw", "with": dict(options)}},
        sinks={
            "out": {"use": "files", "from": "row", "with": {"path": "./out", "format": "parquet"}},
            "bad": {
                "use": "files",
                "from": "row.rejected",
                "with": {"path": "./bad", "format": "parquet"},
            },
        },
    )
    with pipeline.start() as process:
        ended = process.wait(_LONG)
    assert ended.returncode == 0, f"{name}, seed {seed}: {ended.stderr[-4000:]}"
    out, bad = (_count(folder / place) for place in ("out", "bad"))
    told = f"{count:,} in, {out:,} out, {bad:,} rejected"
    # An update with its row before is two changes; a truncation or a message is none or refused.
    whole = out + bad == count if name != "debezium-json" else bad <= count <= 2 * (out + bad)
    assert whole, f"{name}, seed {seed}: {told}"
    assert out, f"{name}, seed {seed}: nothing was right: {told}"
    return told


def _count(folder: Path) -> int:
    return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.glob("*/**/*.parquet"))
