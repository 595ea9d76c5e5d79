"""Asks in Spark's tasks: each key of a batch of rows once, several at a time."""

from __future__ import annotations

import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mainstem import PermanentError, PipelineError, TransientError
from mainstem.columns import Column, arrow_type
from mainstem.patience import retry

from mainstem_lookup.given import GivenAnswers
from mainstem_lookup.lookup import MISSING, Answer, Key, Lookup

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem_lookup.options import LookupOptions

#: Fields of what is told of a row; the last has the answer's columns, by name.
FOUND, REFUSAL, VALUES = "found", "refusal", "values"


@dataclass(frozen=True)
class Asking:
    """What Spark sends to its workers: arrays of keys in, an array of answers out.

    Attributes:
        lookup: asks.
        options: of the operator.
        keys: the key columns.
        columns: those of an answer.
        node: the operator's name in the document.
        given: the answers of a test, which are asked in place of the lookup; see `GivenAnswers`.
        name: the same for all that ask the same; made where the object is, for tasks know classes of a
            notebook by value alone.
    """

    lookup: type[Lookup]
    options: LookupOptions
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    node: str
    given: tuple[str, ...] | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        kind = f"{self.lookup.__module__}.{self.lookup.__qualname__}"
        told = pickle.dumps((kind, self.options, self.keys, self.columns, self.node, self.given))
        object.__setattr__(self, "name", sha256(told).hexdigest())

    def __call__(self, *arrays: pa.Array[Any]) -> pa.Array[Any]:
        return self.asker()(arrays)

    def asker(self) -> Asker:
        """Return the one of this process for all tasks that ask the same."""
        if self.name not in _ASKERS:
            _ASKERS[self.name] = Asker(self)
        return _ASKERS[self.name]


#: Those of this process, which outlive a task: connections and answers are kept for the next one.
_ASKERS: dict[str, Asker] = {}


class Asker:
    """Asks for the tasks of one process, and keeps its connections and answers."""

    def __init__(self, asking: Asking) -> None:
        options, columns = asking.options, asking.columns
        made: Callable[..., Lookup] = asking.lookup
        if asking.given is not None:
            made = partial(GivenAnswers, asking.given)
        self._make: Callable[[], Lookup] = lambda: made(options, asking.keys, columns)
        self._options = options
        self._types = [arrow_type(column.type or "") for column in columns]
        self._names = [column.name for column in columns]
        self._node = asking.node
        self._cache = Cache(options.cache_keys, options.cache_for.total_seconds())
        self._lock = threading.Lock()
        #: Connected, and used by nobody.
        self._idle: list[Lookup] = []

    def __call__(self, arrays: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
        """Return a struct for each row: whether something was found, why it was refused, the values."""
        import pyarrow as pa

        rows = list(zip(*(array.to_pylist() for array in arrays), strict=True))
        answers = self.answers(dict.fromkeys(rows))
        found = [answers[row] for row in rows]
        columns = [
            pa.array([a.values[number] if a.values is not None else None for a in found], kind)
            for number, kind in enumerate(self._types)
        ]
        told: list[pa.Array[Any]] = [
            pa.array([answer.values is not None for answer in found], pa.bool_()),
            pa.array([answer.refusal or None for answer in found], pa.string()),
            pa.StructArray.from_arrays(columns, names=self._names),
        ]
        return pa.StructArray.from_arrays(told, names=[FOUND, REFUSAL, VALUES])

    def answers(self, keys: Iterable[Key]) -> Mapping[Key, Answer]:
        """Return the answer of each key, from the external system where the cache has none.

        Raises:
            PermanentError: there was none, or none before `give_up`.
        """
        found: dict[Key, Answer] = {}
        asked: list[Key] = []
        for key in keys:
            if any(value is None for value in key):
                found[key] = MISSING
            elif (known := self._cache.get(key)) is not None:
                found[key] = known
            else:
                asked.append(key)
        for key, answer in self._all(asked) if asked else ():
            self._cache.put(key, answer)
            found[key] = answer
        return found

    def _all(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Answer]]:
        """Yield the answers as they come."""
        most = self._make().most
        parts = [keys[start : start + most] for start in range(0, len(keys), most)]
        threads = ThreadPoolExecutor(min(self._options.requests, len(parts)), "lookup")
        try:
            futures = {threads.submit(self._patiently, part): part for part in parts}
            for future in as_completed(futures):
                yield from zip(futures[future], future.result(), strict=True)
        finally:
            # If one has failed, the others are not waited for.
            threads.shutdown(wait=False, cancel_futures=True)

    def _patiently(self, keys: Sequence[Key]) -> Sequence[Answer]:
        began = time.monotonic()
        try:
            return retry(lambda _: self._once(keys), self._options.give_up.total_seconds())
        except TransientError as error:
            raise PermanentError(
                f"{self._node}: no answer in {time.monotonic() - began:.0f} s (give_up): {error}"
            ) from None
        except PipelineError as error:
            raise PermanentError(f"{self._node}: {error}") from None

    def _once(self, keys: Sequence[Key]) -> Sequence[Answer]:
        with self._lock:
            lookup = self._idle.pop() if self._idle else None
        new = lookup is None
        lookup = lookup or self._make()
        try:
            if new:
                lookup.connect()
            answers = lookup.ask(keys)
        except BaseException:
            with suppress(Exception):
                lookup.close()
            raise
        with self._lock:
            self._idle.append(lookup)
        return answers


class Cache:
    """Answers by key, for some time.

    Args:
        most: how many are kept.
        seconds: for how long.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._kept: OrderedDict[Key, tuple[float, Answer]] = OrderedDict()

    def get(self, key: Key) -> Answer | None:
        """Return the answer, unless it is too old."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        at, answer = kept
        if time.monotonic() - at >= self._seconds:
            del self._kept[key]
            return None
        return answer

    def put(self, key: Key, answer: Answer) -> None:
        """Keep an answer, and let go of the oldest if there are too many."""
        if not self._seconds:
            return
        self._kept.pop(key, None)
        self._kept[key] = time.monotonic(), answer
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
