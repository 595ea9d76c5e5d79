"""Sets rows, many by one call of a script that compares their versions in Redis itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import FencedError, TransientError
from mainstem.changes import ChangeTarget
from mainstem.patience import retry
from mainstem.sinks import Refused
from redis import exceptions as errors

from mainstem_cache_redis.connection import can_be_taken_later, connect, failure
from mainstem_cache_redis.options import RedisTableOptions
from mainstem_cache_redis.table import ARGUMENTS, COUNT, NAME

if TYPE_CHECKING:
    import pyarrow as pa

#: A call sets so many rows at most: Redis does nothing else meanwhile.
_ROWS = 500
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
local at, failed = 8, {}
local seen = tonumber(redis.call('GET', KEYS[1]) or '0')
if seen > run then return redis.error_reply('FENCED ' .. seen) end
redis.call('SET', KEYS[1], run, 'EX', kept)
for number = 1, #KEYS - 1 do
  local key = KEYS[number + 1]
  local version, count = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  local known
  if versioned == '' then
    known = redis.pcall('HGET', key, field)
  else
    known = redis.pcall('GET', versioned .. key)
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= 'string' then known = {err = 'WRONGTYPE it is a ' .. kind} end
  end
  local gone = redis.pcall('GET', deleted .. key)
  if type(known) == 'table' and known.err then
    failed[#failed + 1] = number
    failed[#failed + 1] = known.err
  elseif type(gone) == 'table' and gone.err then
    failed[#failed + 1] = number
    failed[#failed + 1] = gone.err
  elseif version == '' or not ((known and known >= version) or (gone and gone >= version)) then
    local done
    redis.pcall('DEL', key)
    if versioned ~= '' then redis.pcall('DEL', versioned .. key) end
    if count < 0 then
      if version ~= '' then
        done = redis.pcall('SET', deleted .. key, version, 'EX', horizon)
      end
    else
      if versioned == '' then
        local fields = {field, version}
        for n = at, at + 2 * count - 1 do fields[#fields + 1] = ARGV[n] end
        done = redis.pcall('HSET', key, unpack(fields))
      else
        redis.pcall('SET', versioned .. key, version)
        if ttl > 0 then redis.pcall('EXPIRE', versioned .. key, ttl) end
        done = redis.pcall('SET', key, ARGV[at + 1])
      end
      if ttl > 0 then redis.pcall('EXPIRE', key, ttl) end
      if gone then redis.pcall('DEL', deleted .. key) end
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


class Rows(ChangeTarget):
    """Sets the rows of a task over one connection.

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

    def write(self, sets: pa.Table, deletes: pa.Table, refused: Refused) -> None:
        changes = [*_changes(deletes), *_changes(sets)]
        for start in range(0, len(changes), _ROWS):
            part = changes[start : start + _ROWS]
            give_up = self._options.give_up.total_seconds()
            set_all = partial(self._set, part)
            for number, reason in retry(set_all, give_up, lambda _: self.close()):
                key, arguments, _ = part[number]
                payload = b" ".join([*values_of(key), *values_of(arguments)[2:]])
                refused.add(None, payload, reason)

    def _set(self, changes: list[_Change], _: object) -> list[tuple[int, str]]:
        """Set rows by one call; return the numbers of those that Redis never will, and why."""
        if self._connection is None:
            self._connection = connect(self._options, self._name)
        horizon = int(self._options.deletes_within.total_seconds())
        ttl = int(self._options.ttl.total_seconds()) if self._options.ttl else 0
        given = [DELETED, VERSION_FIELD, max(horizon, 1), max(ttl, 1) if ttl else 0]
        given += (self._run, _KEPT, "" if self._options.format == "hash" else VERSION)
        begin = ["EVAL", _SCRIPT, len(changes) + 1, self._ledger]
        count = len(begin) + len(changes) + len(given) + sum(each for _, _, each in changes)
        parts = [b"*%d\r\n" % count, *map(_packed, begin), *(key for key, _, _ in changes)]
        parts += [*map(_packed, given), *(arguments for _, arguments, _ in changes)]
        try:
            self._connection.send_packed_command([b"".join(parts)])
            found = self._connection.read_response()
        except (errors.RedisError, OSError) as error:
            self.close()
            if str(error).startswith("FENCED"):
                raise FencedError(f"run {str(error).split()[1]} has replaced this one") from None
            raise failure(error) from None
        failed = []
        for number, reason in zip(found[::2], found[1::2], strict=True):
            text = reason.decode(errors="replace")
            if can_be_taken_later(errors.ResponseError(text)) or text.startswith(_FULL):
                raise TransientError(text)
            failed.append((int(number) - 1, text))
        return failed

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()


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
