"""Sets rows, many by one call of a script that compares their versions in Redis itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import FencedError, TransientError
from mainstem.changes import ChangeTarget
from mainstem.patience import retry
from mainstem.sinks import Refused
from redis import exceptions as errors

from mainstem_cache_redis.connection import Cluster, can_be_taken_later, connect, failure
from mainstem_cache_redis.options import RedisTableOptions
from mainstem_cache_redis.slots import beside, slot_of, tags
from mainstem_cache_redis.table import ARGUMENTS, COUNT, NAME

if TYPE_CHECKING:
    import pyarrow as pa

#: A call sets so many rows at most: Redis does nothing else meanwhile.
_ROWS, _BYTES = 500, 8 * 2**20
#: How long Redis remembers the run that wrote last, in seconds.
_KEPT = 90 * 24 * 3600
#: Before the name of a row: that it was deleted, and by which version.
DELETED = "mainstem:deleted:"
#: The field of a hash that holds its version; before the name of a string, that of its version.
VERSION_FIELD = "_version"
VERSION = "mainstem:version:"
#: The first of KEYS holds the highest run that has written. Of each other a version and a count of fields
#: follow, -1 for a deletion, then names and values; of a string one of these, whose name says nothing.
#: Returns pairs of a row's number and why it was not set.
_SCRIPT = """
local deleted, field, horizon, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local run, kept, versioned = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local clustered = ARGV[8] == '1'
local at, failed = 9, {}
local function beside(prefix, key)
  if not clustered or string.find(key, '^[^{]*{[^}]+}') then return prefix .. key end
  return prefix .. '{' .. key .. '}'
end
local seen = tonumber(redis.call('GET', KEYS[1]) or '0')
if seen > run then return redis.error_reply('FENCED ' .. seen) end
redis.call('SET', KEYS[1], run, 'EX', kept)
for number = 1, #KEYS - 1 do
  local key = KEYS[number + 1]
  local version, count = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  local known
  local gone_key, version_key = beside(deleted, key), beside(versioned, key)
  if versioned == '' then
    known = redis.pcall('HGET', key, field)
  else
    known = redis.pcall('GET', version_key)
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= 'string' then known = {err = 'WRONGTYPE it is a ' .. kind} end
  end
  local gone = redis.pcall('GET', gone_key)
  if type(known) == 'table' and known.err then
    failed[#failed + 1] = number
    failed[#failed + 1] = known.err
  elseif type(gone) == 'table' and gone.err then
    failed[#failed + 1] = number
    failed[#failed + 1] = gone.err
  elseif version == '' or not ((known and known >= version) or (gone and gone >= version)) then
    local done
    redis.pcall('DEL', key)
    if versioned ~= '' then redis.pcall('DEL', version_key) end
    if count < 0 then
      if version ~= '' then
        done = redis.pcall('SET', gone_key, version, 'EX', horizon)
      end
    else
      if versioned == '' then
        local fields = {field, version}
        for n = at, at + 2 * count - 1 do fields[#fields + 1] = ARGV[n] end
        done = redis.pcall('HSET', key, unpack(fields))
      else
        redis.pcall('SET', version_key, version)
        if ttl > 0 then redis.pcall('EXPIRE', version_key, ttl) end
        done = redis.pcall('SET', key, ARGV[at + 1])
      end
      if ttl > 0 then redis.pcall('EXPIRE', key, ttl) end
      if gone then redis.pcall('DEL', gone_key) end
    end
    if type(done) == 'table' and done.err then
      failed[#failed + 1] = number
      failed[#failed + 1] = done.err
    end
  end
  if count > 0 then at = at + 2 * count end
end
return failed
"""
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_ALONE = "its name has a } and no pair of braces: no other name goes where it is in a cluster"


def _parts(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Cut changes into calls: Redis hangs up on who sends more than its buffer holds."""
    part: list[_Change] = []
    size = 0
    for change in changes:
        larger = size + len(change[0]) + len(change[1])
        if part and (len(part) == _ROWS or larger > _BYTES):
            yield part
            part, larger = [], larger - size
        part.append(change)
        size = larger
    if part:
        yield part


class Rows(ChangeTarget):
    """Sets the rows of a task over one connection, or one to each server of a cluster.

    Args:
        options: of the sink.
        name: what Redis shows of the connection.
        ledger: the name under which Redis keeps the highest run of the checkpoint that has written.
        run: the number of this run.
    """

    def __init__(self, options: RedisTableOptions, name: str, ledger: str, run: int) -> None:
        self._options = options
        self._name = name
        self._ledger = ledger
        self._run = run
        self._connection: Any = None
        self._cluster: Cluster | None = None
        #: The connections over which the whole script was sent.
        self._known: set[Any] = set()

    def write(self, sets: pa.Table, deletes: pa.Table, refused: Refused) -> None:
        changes = [*_changes(deletes), *_changes(sets)]
        for part in _parts(changes):
            give_up = self._options.give_up.total_seconds()
            set_all = partial(self._set, part)
            for number, reason in retry(set_all, give_up, lambda _: self.close()):
                key, arguments, _ = part[number]
                payload = b" ".join([*values_of(key), *values_of(arguments)[2:]])
                refused.add(None, payload, reason)

    def _set(self, changes: list[_Change], _: object) -> list[tuple[int, str]]:
        """Set rows; return the numbers of those that Redis never will, and why."""
        failed = [(n, _ALONE) for n, (key, _, _) in enumerate(changes) if self._alone(key)]
        given = [n for n in range(len(changes)) if n not in dict(failed)]
        try:
            calls = list(self._calls(changes, given))
            for connection, ledger, numbers in calls:
                connection.send_packed_command(
                    [self._call(connection, ledger, [changes[n] for n in numbers])]
                )
            for connection, _, numbers in calls:
                for place, reason in _pairs(connection.read_response()):
                    failed.append((numbers[place - 1], reason))
        except (errors.RedisError, OSError) as error:
            self.close()
            if str(error).startswith("FENCED"):
                raise FencedError(f"run {str(error).split()[1]} has replaced this one") from None
            raise failure(error, self._options) from None
        for _, reason in failed:
            known = errors.ResponseError(reason)
            if can_be_taken_later(known, self._options) or reason.startswith(_FULL):
                self.close()
                raise TransientError(reason)
        return failed

    def _alone(self, key: bytes) -> bool:
        """Whether no other name can be made that is where a row's is, to remember a deletion by."""
        name = values_of(key)[0] if self._options.cluster else b""
        return bool(name) and slot_of(beside("", name)) != slot_of(name)

    def _calls(
        self, changes: list[_Change], among: list[int]
    ) -> Iterator[tuple[Any, str, list[int]]]:
        """Yield which rows go together: over which connection, with which name of the ledger.

        All, or in a cluster those of a slot, of which alone a script may set names.
        """
        if not self._options.cluster:
            if self._connection is None:
                self._connection = connect(self._options, self._name)
            yield self._connection, self._ledger, among
            return
        if self._cluster is None:
            self._cluster = Cluster(self._options, self._name)
        by_slot: dict[int, list[int]] = {}
        for number in among:
            by_slot.setdefault(slot_of(values_of(changes[number][0])[0]), []).append(number)
        for slot, numbers in by_slot.items():
            ledger = f"mainstem:{{{tags()[slot]}}}{self._ledger.removeprefix('mainstem')}"
            yield self._cluster.connection(slot), ledger, numbers

    def _call(self, connection: Any, ledger: str, changes: list[_Change]) -> bytes:
        """Return a call of the script, as Redis takes it."""
        options = self._options
        horizon = int(options.deletes_within.total_seconds())
        ttl = int(options.ttl.total_seconds()) if options.ttl else 0
        given = [DELETED, VERSION_FIELD, max(horizon, 1), max(ttl, 1) if ttl else 0]
        given += (self._run, _KEPT, "" if options.format == "hash" else VERSION)
        given.append(int(options.cluster))
        script = ["EVAL", _SCRIPT]
        if (
            options.cluster and connection in self._known
        ):  # of few rows: the script would be most of it
            script = ["EVALSHA", _SHA]
        self._known.add(connection)
        begin = [*script, len(changes) + 1, ledger]
        count = len(begin) + len(changes) + len(given) + sum(each for _, _, each in changes)
        parts = [b"*%d\r\n" % count, *map(_packed, begin), *(key for key, _, _ in changes)]
        parts += [*map(_packed, given), *(arguments for _, arguments, _ in changes)]
        return b"".join(parts)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
        self._known.clear()


def _pairs(found: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield what the script returns: numbers of rows, from 1, and why they were not set."""
    for number, reason in zip(found[::2], found[1::2], strict=True):
        yield int(number), reason.decode(errors="replace")


#: A row: its name, its version and fields, as Redis takes them, and how many arguments those are.
_Change = tuple[bytes, bytes, int]
_FULL = ("OOM", "READONLY")


def _changes(rows: pa.Table) -> Iterator[_Change]:
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in (NAME, ARGUMENTS, COUNT)]
    return zip(*columns, strict=True)


def _packed(value: object) -> bytes:
    """Return an argument as Redis takes it (RESP's bulk string)."""
    text = str(value).encode()
    return b"$%d\r\n%b\r\n" % (len(text), text)


def values_of(packed: bytes) -> list[bytes]:
    """Return the arguments that `_packed` has packed."""
    found, at = [], 0
    while at < len(packed):
        end = packed.index(b"\r\n", at)
        begin, size = end + 2, int(packed[at + 1 : end])
        found.append(packed[begin : begin + size])
        at = begin + size + 2
    return found
