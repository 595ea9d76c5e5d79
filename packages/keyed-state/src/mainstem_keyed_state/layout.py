"""What is decided once for a checkpoint: which buckets a node's keys are in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstem import OperatorContext, OptionError, PluginError, write_whole

from mainstem_keyed_state.keys import KeyKind

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
    """

    labels: tuple[int, ...]
    keys: KeyKind


def layout_of(ctx: OperatorContext, name: str, keys: KeyKind) -> Layout:
    """Return the layout of one of a node's states: that with which its checkpoint was begun.

    Raises:
        OptionError: the keys are now of types whose bytes are others.
        PluginError: the checkpoint is of a later version of this library.
    """
    file = ctx.folder() / (f"{_FILE}.{name}.json" if name else f"{_FILE}.json")
    if file.exists():
        found = read(file)
        if not keys.fits(found.keys):
            now, before = (f"({', '.join(kind.types)})" for kind in (keys, found.keys))
            message = f"the keys were {before} when the checkpoint was begun, and are {now} now"
            raise OptionError(
                message, hint="Bring them to that type, or begin anew with `--fresh`."
            )
        return found
    partitions = int(ctx.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    made = Layout(tuple(even_labels(partitions, FACTOR)), keys)
    told = {"types": keys.types, "nulls_equal": keys.nulls_equal}
    write_whole(file, json.dumps({"format": _FORMAT, "buckets": made.labels, "keys": told}))
    return made


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
    found: dict[str, Any] = json.loads(file.read_text())
    if found["format"] > _FORMAT:
        raise PluginError(f"{file} was written by a later version of mainstem-keyed-state")
    keys = KeyKind(tuple(found["keys"]["types"]), found["keys"]["nulls_equal"])
    return Layout(tuple(found["buckets"]), keys)


def even_labels(partitions: int, each: int) -> list[int]:
    """Return labels of which Spark puts as many into every partition.

    Spark puts an INT into the partition of its hash (Murmur3, seed 42). Numbers just counted up
    would give one of two partitions six of eight buckets.
    """
    room = dict.fromkeys(range(partitions), each)
    labels = []
    label = 0
    while room:
        partition = _murmur3(label) % partitions
        if partition in room:
            labels.append(label)
            room[partition] -= 1
            if not room[partition]:
                del room[partition]
        label += 1
    return labels


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
