"""What `percolate` does: it keeps queries, and asks them about documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl
from mainstem import COMMIT_VERSION
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.changes import DELETED, newest, replaced

from mainstem_operators_search.index import Document, Index
from mainstem_operators_search.query import Query, Reader

if TYPE_CHECKING:
    from mainstem_operators_search.predicate import PredicateReader

#: The column of a query's text at the port; the port, and the table of queries.
TEXT, QUERIES = "__text", "queries"
#: What was read, by columns and text, and the index of what a bucket has: tasks come and go, and their
#: process stays.
_READ: dict[tuple[str, str], Query] = {}
_MOST_READ = 500_000
_INDICES: dict[tuple[str, str, int, int], tuple[Index, pl.Series]] = {}
_MOST_INDICES = 4


class PercolateLogic(Logic):
    """Asks the queries of the table about each document.

    Args:
        rows, queries: the columns of the ports; a query has its key, `TEXT`, and what `newest` asks for.
        key: the column of a query's key.
        types: the columns of documents that can be asked for.
        fields: those that are searched where a query names none.
        matches: the name of the column that is added.
        language: how queries are written: `words` or `sql`.
    """

    everywhere = (QUERIES,)

    def __init__(
        self,
        rows: pl.Schema,
        queries: pl.Schema,
        *,
        key: str,
        types: Mapping[str, str],
        fields: Sequence[str],
        matches: str,
        language: str = "words",
    ) -> None:
        self._key, self._types, self._matches = key, dict(types), matches
        self._fields = list(fields)
        self._sql = language == "sql"
        # Predicates ask for no words.
        texts = [name for name, kind in types.items() if kind == "string"]
        self._texts = [] if self._sql else texts
        self._mark = repr((sorted(types.items()), self._fields, language))
        self.ports = {"input": rows, QUERIES: queries}
        kept = {name: kind for name, kind in queries.items() if name != COMMIT_VERSION}
        self.tables = {QUERIES: Table(pl.Schema(kept), shared=True)}
        self.outputs = {
            MAIN: pl.Schema({**rows, matches: pl.List(queries[key])}),
            "rejected": pl.Schema({"reason": pl.String(), "payload": pl.Binary()}),
        }

    def share(self, step: Step) -> Done:
        """Note the queries that are new, and forget those that are gone; tell which can't be read."""
        state = step.state[QUERIES]
        fresh, _ = newest(step.rows[QUERIES].select(state.columns), state)
        reasons = [
            f"query {str(key)[:50]}: {why}" if not gone and (why := self._wrong(text)) else None
            for key, text, gone in fresh.select(self._key, TEXT, DELETED).iter_rows()
        ]
        wrong = pl.Series("reason", reasons, pl.String())
        refused = fresh.with_columns(wrong).filter(wrong.is_not_null())
        # One that can't be read is no query; of its key there is none any more.
        gone = pl.col(DELETED) | wrong.is_not_null()
        fresh = fresh.with_columns(gone, pl.when(~gone).then(TEXT).alias(TEXT))
        outputs = {}
        if not refused.is_empty():
            payload = pl.col(TEXT).fill_null("").cast(pl.Binary).alias("payload")
            outputs["rejected"] = refused.select("reason", payload)
        return Done(outputs, {QUERIES: replaced(state, fresh)})

    def _wrong(self, text: str | None) -> str | None:
        """Return why a text is no query."""
        if text is None:
            return "it is null"
        try:
            self._read(text)
        except (ValueError, ArithmeticError) as error:
            return str(error) or "it can't be read"
        return None

    def _read(self, text: str) -> Query:
        place = (self._mark, text)
        found = _READ.get(place)
        if found is None:
            if len(_READ) >= _MOST_READ:
                _READ.clear()
            found = _READ[place] = self._reader().read(text)
        return found

    def _reader(self) -> Reader | PredicateReader:
        if not self._sql:
            return Reader(self._types, self._fields)
        from mainstem_operators_search.predicate import PredicateReader

        return PredicateReader(self._types)

    def step(self, step: Step) -> Done:
        """Ask about the documents."""
        rows = step.rows["input"].select(list(self.ports["input"]))
        if rows.is_empty():
            return Done()
        index, keys = self._index(step.state[QUERIES])
        names = list(self._types)
        counts, places = [], []
        times = [
            name for name, kind in self._types.items() if kind.startswith(("date", "timestamp"))
        ]
        # Spark has days that Python has not.
        for values in rows.select(names).with_columns(pl.col(times).to_physical()).iter_rows():
            found = index.matching(Document(dict(zip(names, values, strict=True)), self._texts))
            counts.append(len(found))
            places += found
        column = _lists(keys, counts, places).alias(self._matches)
        return Done({MAIN: rows.with_columns(column)})

    def _index(self, state: pl.DataFrame) -> tuple[Index, pl.Series]:
        """Return the queries that are there, and their keys."""
        there = state.filter(~pl.col(DELETED)).select(KEY, self._key, TEXT).sort(self._key)
        mark = int(there.select(KEY, TEXT).hash_rows().implode().hash()[0]) if there.height else 0
        place = (self._mark, str(there.schema), there.height, mark)
        known = _INDICES.pop(place, None)
        if known is None:
            # One that this version can't read any more is none.
            good = [self._wrong(text) is None for text in there[TEXT]]
            there = there.filter(pl.Series(good, dtype=pl.Boolean))
            known = (Index([self._read(text) for text in there[TEXT]]), there[self._key])
        _INDICES[place] = known
        while len(_INDICES) > _MOST_INDICES:
            _INDICES.pop(next(iter(_INDICES)))
        return known


def _lists(keys: pl.Series, counts: Sequence[int], places: Sequence[int]) -> pl.Series:
    """Return keys as lists of so many each."""
    ends = pl.Series(counts, dtype=pl.UInt32).cum_sum()
    found = pl.DataFrame({"key": keys.gather(pl.Series(places, dtype=pl.UInt32))})
    row = pl.Series(range(len(places)), dtype=pl.UInt32)
    found = found.with_columns(ends.search_sorted(row, side="right").alias("row"))
    lists = found.group_by("row").agg("key")
    every = pl.DataFrame({"row": pl.Series(range(len(counts)), dtype=lists.schema["row"])})
    whole = every.join(lists, on="row", how="left", maintain_order="left")
    return whole.select(pl.col("key").fill_null(pl.lit([], lists.schema["key"]))).to_series()
