"""Events of an auction house, as NEXMark has them: persons, auctions, bids.

Of each fifty events one is a new person, three are new auctions, and the rest are bids. Half of all bids
are on an auction that is hot just then, three of four come from a bidder that is; sellers are alike. An
event arrives up to two seconds after it was. An auction is open for less than four seconds, and is bid on
for no longer, so `within: 10 seconds` holds every bid on an auction.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: An event comes each millisecond.
BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
LATEST_MS = 2_000
_CYCLE, _AUCTIONS = 50, 3
_FIRST = 1_000  # of all ids
_HOT = 100  # a hundred auctions, or persons, have one that is hot
_OPEN_US = (500_000, 4_000_000)
_CHANNELS = ("apple", "google", "facebook", "baidu")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Kent",
)
_FIRST_NAMES = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Walter",
)
_LAST_NAMES = (
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
)
_TIME = pa.timestamp("us", tz="UTC")
_SIDE_ROWS = 10_000


def write_events(folder: Path, events: int, files: int, seed: int = 1) -> None:
    """Write `person`, `auction`, `bid` and the table `side` as Parquet files, in the order of arrival.

    Args:
        events: how many, of all kinds.
        files: so many of each kind; the events of a file have come after those of the file before. They
            are of random sizes.
    """
    random = np.random.default_rng(seed)
    number = np.arange(events)
    arrival = np.argsort(number + random.integers(0, LATEST_MS, events), kind="stable")
    cuts = np.sort(random.choice(np.arange(1, events), files - 1, replace=False))
    tables = {
        "person": _persons(number[number % _CYCLE == 0], random),
        "auction": _auctions(
            number[(number % _CYCLE > 0) & (number % _CYCLE <= _AUCTIONS)], random
        ),
        "bid": _bids(number[number % _CYCLE > _AUCTIONS], random),
    }
    place = np.empty(events, dtype=np.int64)
    place[arrival] = np.arange(events)
    for name, (numbers, table) in tables.items():
        part = np.searchsorted(cuts, place[numbers], side="right")
        order = np.argsort(place[numbers], kind="stable")
        (folder / name).mkdir(parents=True)
        for file in range(files):
            rows = table.take(pa.array(order[part[order] == file]))
            pq.write_table(rows, folder / name / f"part-{file:05}.parquet")
    side = {
        "key": pa.array(range(_SIDE_ROWS), pa.int64()),
        "value": [f"value {n}" for n in range(_SIDE_ROWS)],
    }
    (folder / "side").mkdir()
    pq.write_table(pa.table(side), folder / "side" / "part-00000.parquet")


def _times(numbers: np.ndarray, after_us: np.ndarray | int = 0) -> pa.Array:
    return pa.array((BEGIN + numbers) * 1000 + after_us, pa.int64()).cast(_TIME)


def _texts(random: np.random.Generator, rows: int, length: int) -> pa.Array:
    """Return texts of small letters."""
    letters = random.integers(ord("a"), ord("z") + 1, rows * length, dtype=np.uint8)
    offsets = np.arange(0, (rows + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def _picked(random: np.random.Generator, words: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(random.integers(0, len(words), rows)))


def _joined(*parts: pa.Array | str) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*parts, "")


def _some(
    random: np.random.Generator, last: np.ndarray, newest: int, hot: float, begin: int
) -> np.ndarray:
    """Return ids among the newest, or the one that is hot.

    Args:
        last: how many there are by then, less one.
        hot: the share of those that are the hot one.
        begin: which of each hundred is hot.
    """
    oldest = np.maximum(last - newest + 1, 0)
    cold = oldest + (random.random(len(last)) * (last - oldest + 1)).astype(np.int64)
    warm = np.minimum(last // _HOT * _HOT + begin, last)
    return _FIRST + np.where(random.random(len(last)) < hot, warm, cold)


def _prices(random: np.random.Generator, rows: int) -> np.ndarray:
    return np.round(10 ** (random.random(rows) * 6) * 100).astype(np.int64)


def _persons(numbers: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, pa.Table]:
    rows = len(numbers)
    name = _joined(_picked(random, _FIRST_NAMES, rows), " ", _picked(random, _LAST_NAMES, rows))
    columns = {
        "id": pa.array(_FIRST + numbers // _CYCLE),
        "name": name,
        "email": _joined(_texts(random, rows, 7), "@", _texts(random, rows, 5), ".com"),
        "city": _picked(random, _CITIES, rows),
        "state": _picked(random, _STATES, rows),
        "ts": _times(numbers),
        "extra": _texts(random, rows, 100),
    }
    return numbers, pa.table(columns)


def _auctions(numbers: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, pa.Table]:
    rows, begun = len(numbers), numbers // _CYCLE
    initial = _prices(random, rows)
    columns = {
        "id": pa.array(_FIRST + begun * _AUCTIONS + numbers % _CYCLE - 1),
        "item": _texts(random, rows, 20),
        "description": _texts(random, rows, 100),
        "initial": pa.array(initial),
        "reserve": pa.array(initial + _prices(random, rows)),
        "ts": _times(numbers),
        "expires": _times(numbers, random.integers(*_OPEN_US, rows)),
        "seller": pa.array(_some(random, begun, 1_000, 0.75, 0)),
        "category": pa.array(random.integers(10, 15, rows)),
        "extra": _texts(random, rows, 300),
    }
    return numbers, pa.table(columns)


def _bids(numbers: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, pa.Table]:
    import pyarrow.compute as pc

    rows, begun = len(numbers), numbers // _CYCLE
    number = random.integers(0, 10_000, rows)
    common = random.random(rows) < 0.5
    channel = pc.if_else(
        pa.array(common),
        _picked(random, _CHANNELS, rows),
        _joined("channel-", pa.array(number).cast(pa.string())),
    )
    path = _joined("https://www.nexmark.com/", *_path(random, rows), "/item.htm?query=1")
    told = _joined(path, "&channel_id=", pa.array(number * 7).cast(pa.string()))
    columns = {
        "auction": pa.array(_some(random, begun * _AUCTIONS + 2, 100, 0.5, 0)),
        "bidder": pa.array(_some(random, begun, 1_000, 0.75, 1)),
        "price": pa.array(_prices(random, rows)),
        "channel": channel,
        "url": pc.if_else(pa.array(random.random(rows) < 0.9), told, path),
        "ts": _times(numbers),
        "extra": _texts(random, rows, 40),
    }
    return numbers, pa.table(columns)


def _path(random: np.random.Generator, rows: int) -> list[pa.Array | str]:
    return [_texts(random, rows, 3), "/", _texts(random, rows, 4), "/", _texts(random, rows, 5)]
