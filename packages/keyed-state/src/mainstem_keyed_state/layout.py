"""What is noted down of a node's state: which buckets its keys are in, and what its rows are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from mainstem import OperatorContext, OptionError, PluginError
from mainstem.durable import read_whole, write_whole

from mainstem_keyed_state.keys import KeyKind
from mainstem_keyed_state.logic import Logic

#: Buckets for each partition: so many times more partitions can share the state later.
FACTOR = 4
_FORMAT = 1
_FILE = "keyed-state"


@dataclass(frozen=True)
class Layout:
    """Where a node's rows are by their keys.

    Attributes:
        labels: of the buckets: a key whose hash is `h` is in the bucket `labels[h % len(labels)]`.
        keys: what kind of keys they are.
        version: that of the logic which ran last.
        tables: the columns of its tables, with their types in Arrow's words.
    """

    labels: tuple[int, ...]
    keys: KeyKind
    version: int
    tables: Mapping[str, Mapping[str, str]]


def layout_of(ctx: OperatorContext, name: str, keys: KeyKind, logic: Logic) -> Layout:
    """Return the layout of one of a node's states, with the buckets of when its checkpoint was begun.

    Raises:
        OptionError: the keys are now of types whose bytes are others, or the rows of the state lack
            columns that they had, or have others for them, although the logic's version is the same.
        PluginError: the checkpoint is of a later version of this library.
    """
    tables = {table: _columns(kind.columns) for table, kind in logic.tables.items()}
    file = ctx.folder() / (f"{_FILE}.{name}.json" if name else f"{_FILE}.json")
    if file.exists():
        found = read(file)
        if not keys.fits(found.keys):
            now, before = (f"({', '.join(kind.types)})" for kind in (keys, found.keys))
            message = f"the keys were {before} when the checkpoint was begun, and are {now} now"
            raise OptionError(
                message, hint="Bring them to that type, or start over with `--fresh`."
            )
        if found.version == logic.version:
            _check(found.tables, tables)
        layout = replace(found, keys=keys, version=logic.version, tables=tables)
        if layout != found:
            _write(file, layout)
        return layout
    partitions = int(ctx.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    layout = Layout(tuple(even_labels(partitions, FACTOR)), keys, logic.version, tables)
    _write(file, layout)
    return layout


def _columns(schema: pl.Schema) -> dict[str, str]:
    empty = pl.DataFrame(schema=schema).to_arrow(compat_level=pl.CompatLevel.oldest())
    return {field.name: str(field.type) for field in empty.schema}


def _check(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> None:
    for table in before.keys() & now.keys():
        if not before[table].items() <= now[table].items():  # what is new is null in rows of before
            were, are = (
                ", ".join(f"{name} {kind}" for name, kind in columns[table].items())
                for columns in (before, now)
            )
            raise OptionError(
                f"its state has rows of ({were}), and now would have ({are})",
                hint="Bring the columns to what they were, or start over with `--fresh`.",
            )


def _write(file: Path, layout: Layout) -> None:
    keys = {"types": layout.keys.types, "nulls_equal": layout.keys.nulls_equal}
    told = {
        "format": _FORMAT,
        "buckets": layout.labels,
        "keys": keys,
        "version": layout.version,
        "tables": layout.tables,
    }
    write_whole(file, json.dumps(told))


def layouts_in(folder: Path) -> dict[str, Layout]:
    """Return the layouts of a node's states, by name, from its durable folder; none if there is none.

    Raises:
        PluginError: one is of a later version of this library.
    """
    files = sorted(folder.glob(f"{_FILE}*.json"))
    return {file.name.removesuffix(".json").partition(".")[2]: read(file) for file in files}


def read(file: Path) -> Layout:
    """Return a layout as it is written down.

    Raises:
        PluginError: it is of a later version of this library.
    """
    found: dict[str, Any] = json.loads(read_whole(file))
    if found["format"] > _FORMAT:
        raise PluginError(f"{file} was written by a later version of mainstem-keyed-state")
    keys = KeyKind(tuple(found["keys"]["types"]), found["keys"]["nulls_equal"])
    # A file of before the two were noted says nothing of them, and all fits it.
    return Layout(tuple(found["buckets"]), keys, found.get("version", 0), found.get("tables", {}))


def even_labels(partitions: int, each: int) -> list[int]:
    """Return labels of which Spark puts as many into every partition.

    Spark puts an INT into the partition of its hash (Murmur3, seed 42). Numbers just counted up
    would give one of two partitions six of eight buckets.
    """
    room = dict.fromkeys(range(partitions), each)
    labels = []
    label = 0
    while room:
        partition = partition_of(label, partitions)
        if partition in room:
            labels.append(label)
            room[partition] -= 1
            if not room[partition]:
                del room[partition]
        label += 1
    return labels


def partition_of(label: int, partitions: int) -> int:
    """Return into which of so many partitions Spark puts the bucket of a label."""
    return _murmur3(label) % partitions


def _murmur3(value: int, seed: int = 42) -> int:
    """Return Spark's hash of an INT, a signed number (Austin Appleby's MurmurHash3_x86_32)."""
    mask = 0xFFFFFFFF

    def rotated(number: int, by: int) -> int:
        return ((number << by) | (number >> (32 - by))) & mask

    mixed = (rotated((value * 0xCC9E2D51) & mask, 15) * 0x1B873593) & mask
    found = (rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & mask
    found ^= 4
    found = ((found ^ (found >> 16)) * 0x85EBCA6B) & mask
    found = ((found ^ (found >> 13)) * 0xC2B2AE35) & mask
    found ^= found >> 16
    return found - (1 << 32) if found >= 1 << 31 else found
