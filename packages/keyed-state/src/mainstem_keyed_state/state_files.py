"""The entries of a state variable as Spark's state store has them in its files, read without Spark.

For each partition there are snapshots (`7.zip` and the files of RocksDB that it names) and what each
version has changed since (`8.changelog`); both are written once and never changed. Keys and values are
rows in Spark's own form (`UnsafeRow`).
"""

from __future__ import annotations

import json
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from mainstem import PipelineError

from mainstem_keyed_state.layout import partition_of

#: How much a value of a row takes, of fixed length or where it stands.
_WORD = 8
#: The number that RocksDB's column family has before each key, and the length of a key's first part.
_FAMILY, _FIRST = struct.Struct("<h"), struct.Struct("<i")
_PLACE = struct.Struct("<ii")
_LENGTH = struct.Struct(">i")
#: The kinds of records in a changelog.
_END, _PUT, _DELETE = 0x00, 0x01, 0x10
#: A block of LZ4 as its Java library frames them: a magic, a method, two lengths and a checksum.
_LZ4, _BLOCK, _RAW = b"LZ4Block", struct.Struct("<BiiI"), 0x10
_ZSTD = b"\x28\xb5\x2f\xfd"
#: How often it is looked again: a query that runs removes files that it needs no longer.
_TRIES = 3


class GoneError(PipelineError):
    """The state after that batch is not there, or not any more."""


class Entry(NamedTuple):
    """An entry of the state: see `entries`."""

    bucket: int
    table: str
    page: int
    layout: int
    data: bytes


@dataclass(frozen=True)
class StateFiles:
    """The state of one operator of a query, after one batch.

    Attributes:
        folder: of its partitions.
        variable: the state variable.
        partitions: how many there are.
        version: that of the state: the number of batches.
    """

    folder: Path
    variable: str
    partitions: int
    version: int

    def entries(self, buckets: Iterable[int] | None = None) -> list[Entry]:
        """Return the entries of some buckets, or of all.

        Raises:
            GoneError: they are not there any more.
            PipelineError: they can't be read.
        """
        wanted = None if buckets is None else set(buckets)
        if wanted is None:
            numbers = list(range(self.partitions))
        else:
            numbers = sorted({partition_of(bucket, self.partitions) for bucket in wanted})
        return [entry for number in numbers for entry in self._partition(number, wanted)]

    def _partition(self, number: int, buckets: set[int] | None) -> list[Entry]:
        folder = self.folder / str(number)
        for left in reversed(range(_TRIES)):
            try:
                found = _Partition(folder, self.variable, self.version).values()
                return [e for k, v in found.items() if (e := _entry(k, v, buckets)) is not None]
            except PipelineError:
                raise
            except Exception as error:  # also of a file that is removed while it is read
                if left:
                    continue
                if isinstance(error, FileNotFoundError):
                    lacks = Path(str(error.filename)).name
                    raise GoneError(f"{folder} lacks {lacks}: its state is gone") from None
                raise PipelineError(f"{folder}: its state can't be read: {error!r:.200}") from None
        raise AssertionError


def state_files(checkpoint: Path, variable: str, batch: int | None = None) -> StateFiles:
    """Return where the state of a query is.

    Args:
        checkpoint: the query's.
        variable: the state variable's name.
        batch: after which batch; the last one when left out.

    Raises:
        GoneError: it is not kept any more.
        PipelineError: there is none.
    """
    done = [int(each.name) for each in (checkpoint / "commits").glob("*") if each.name.isdigit()]
    if not done:
        raise PipelineError(f"{checkpoint} has no batch that was done")
    if batch is not None and batch not in done:
        told = f"batches {min(done)} to {max(done)} are kept"
        raise GoneError(f"{checkpoint} has no batch {batch}: {told}")
    for folder in sorted((checkpoint / "state").glob("*")):
        for store in _stores(folder / "_metadata"):
            if variable in store.variables:
                version = (max(done) if batch is None else batch) + 1
                return StateFiles(folder, variable, store.partitions, version)
    raise PipelineError(f"{checkpoint} has no state {variable!r}")


class _Store(NamedTuple):
    """What an operator's metadata says."""

    variables: frozenset[str]
    partitions: int


def _stores(folder: Path) -> Iterator[_Store]:
    """Yield what an operator has noted of its state; the last one counts."""
    files = [each for each in folder.glob("*/*") if each.name.isdigit()] if folder.exists() else []
    if not files:
        return
    last = max(files, key=lambda each: int(each.name))
    try:
        told = json.loads(last.read_text().split("\n", 1)[1])
        properties = json.loads(told.get("operatorPropertiesJson") or "{}")
    except (OSError, ValueError, IndexError) as error:
        raise PipelineError(f"{last} can't be read: {error!r:.200}") from None
    names = frozenset(str(v["stateName"]) for v in properties.get("stateVariables", ()))
    for store in told["stateStoreInfo"]:
        yield _Store(names, int(store["numPartitions"]))


class _Partition:
    """The state of one partition in one version."""

    def __init__(self, folder: Path, variable: str, version: int) -> None:
        self._folder = folder
        self._variable = variable
        self._version = version

    def values(self) -> Mapping[bytes, bytes]:
        """Return the values of the variable by their keys, without what tells the variable."""
        snapshots = [int(p.stem) for p in self._folder.glob("*.zip") if p.stem.isdigit()]
        before = [each for each in snapshots if each <= self._version]
        if not before:  # also a partition that never had a row has one
            raise FileNotFoundError(2, "no snapshot", f"{self._version}.zip")
        first = max(before)
        found, family = self._snapshot(first)
        for version in range(first + 1, self._version + 1):
            for key, value in _changes((self._folder / f"{version}.changelog").read_bytes()):
                if not key.startswith(family):
                    continue
                if value is None:
                    found.pop(key[len(family) :], None)
                else:
                    found[key[len(family) :]] = value
        return found

    def _snapshot(self, version: int) -> tuple[dict[bytes, bytes], bytes]:
        """Return what a snapshot has of the variable, and what its keys begin with."""
        from rocksdict import AccessType, Options, Rdict

        with tempfile.TemporaryDirectory() as place:
            with zipfile.ZipFile(self._folder / f"{version}.zip") as packed:
                packed.extractall(place)
            told = json.loads(Path(place, "metadata").read_text().split("\n", 1)[1])
            family = _FAMILY.pack(told["columnFamilyMapping"][self._variable])
            for file in told["sstFiles"]:
                there = self._folder / "SSTs" / file["dfsSstFileName"]
                if not there.exists():
                    raise FileNotFoundError(2, "no file", str(there))
                Path(place, file["localFileName"]).symlink_to(there.absolute())
            store: Any = Rdict(place, Options(raw_mode=True), access_type=AccessType.read_only())
            try:
                found: dict[bytes, bytes] = {}
                for key, value in store.items(from_key=family):
                    if not key.startswith(family):
                        break
                    found[key[len(family) :]] = value
            finally:
                store.close()
        return found, family


def _changes(packed: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield what a changelog puts by key, and None for what it removes.

    Raises:
        PipelineError: it is written in a way that is not known here.
    """
    data = _unpacked(packed)
    if not data.startswith(b"\x00\x02v2"):
        raise PipelineError("a changelog of the state is of a version that is not known here")
    at = 4
    while (kind := data[at]) != _END:
        if kind not in (_PUT, _DELETE):
            raise PipelineError("a changelog of the state has records that are not known here")
        (size,) = _LENGTH.unpack_from(data, at + 1)
        key = data[at + 5 : at + 5 + size]
        at += 5 + size
        (size,) = _LENGTH.unpack_from(data, at)
        at += 4
        if size < 0:
            yield key, None
        else:
            yield key, data[at : at + size]
            at += size


def _unpacked(packed: bytes) -> bytes:
    if packed.startswith(_ZSTD):
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            return stream.read()
    if not packed.startswith(_LZ4):
        raise PipelineError("the state is compressed by a codec that is not read here")
    parts, at = [], 0
    while at < len(packed):
        method, size, whole, _ = _BLOCK.unpack_from(packed, at + len(_LZ4))
        at += len(_LZ4) + _BLOCK.size
        body = packed[at : at + size]
        at += size
        if method & 0xF0 != _RAW:
            body = pa.Codec("lz4_raw").decompress(body, whole, asbytes=True)
        parts.append(body)
    return b"".join(parts)


def _entry(key: bytes, value: bytes, buckets: set[int] | None) -> Entry | None:
    """Return an entry of a key and a value; None if it is of no bucket that is wanted."""
    (size,) = _FIRST.unpack_from(key)
    first, second = _row(key[_FIRST.size : _FIRST.size + size]), _row(key[_FIRST.size + size :])
    bucket = _int(_bytes(first, 0), 0)
    if buckets is not None and bucket not in buckets:
        return None
    name, kept = _bytes(second, 0), _row(value)
    table = _bytes(name, 0).decode()
    return Entry(bucket, table, _int(name, 1), _int(kept, 0), _bytes(kept, 1))


def _row(data: bytes) -> bytes:
    """Return a row without the byte before it, which says in which version it is written."""
    return data[1:]


def _int(row: bytes, field: int) -> int:
    """Return a number of a row; before the values is a word that tells which are null."""
    found: tuple[int] = _FIRST.unpack_from(row, _WORD * (1 + field))
    return found[0]


def _bytes(row: bytes, field: int) -> bytes:
    """Return a value of a row that is of any length, a row in it too."""
    size, begin = _PLACE.unpack_from(row, _WORD * (1 + field))
    return row[begin : begin + size]
