"""Loads what a query must know first, before its other reads begin.

A phase is the whole query, run on its checkpoint until what there was at the start has been read; a
read whose turn has not come gives nothing. It is named in the checkpoint only once it begins: Spark
takes it for a new source then. A read that had begun already (the table has gained a source since)
keeps the offset that it has.

A query's folder holds `loaded.json`: by read, the last batch of the phase that loaded it, and where
its source ended then. A crash before that is written repeats the phase, which goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainstem.contracts.abilities import Measurable
from mainstem.crashpoints import failpoint
from mainstem.durable import made_folder, read_whole, write_whole
from mainstem.errors import PipelineError
from mainstem.history import History
from mainstem.paths import for_spark
from mainstem.plan.bootstrap import reads_of
from mainstem.plan.model import Plan, Query, ancestors
from mainstem.run.frozen_source import SCHEMA
from mainstem.run.nulls import unknown_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from mainstem.run.checkpoint import Checkpoint


@dataclass(frozen=True)
class Phase:
    """What is loaded together.

    Attributes:
        number: from 1.
        of: how many phases there are, that of the whole query too.
        reads: those that are read in it: its own, and those of the phases before.
        new: those that were not loaded before.
        ends: where the sources of these end now, by read and partition, as far as they can tell.
    """

    number: int
    of: int
    reads: frozenset[str]
    new: tuple[str, ...]
    ends: Mapping[str, Mapping[str, str]]


def loaded_by(plan: Plan, query: Query, phase: Phase) -> list[str]:
    """Return the nodes of a query all of whose rows come of what a phase reads."""

    def reads(node: str) -> list[str]:
        above = ancestors(node, plan.nodes) | {node}
        sources = [each for each in above if plan.nodes[each].kind == "source"]
        return [read for source in sources for read in reads_of(query, source)]

    return [node for node in query.streaming if phase.reads.issuperset(reads(node))]


class Loading:
    """What of a query is loaded, as its checkpoint has it."""

    def __init__(self, plan: Plan, query: Query, history: History) -> None:
        self._plan = plan
        self._query = query
        self._history = history
        self._file = history.folder / "loaded.json"

    def phase(self) -> Phase | None:
        """Return the next phase; None when the whole query can run.

        Raises:
            PipelineError: the record can't be read.
        """
        loaded, reads = self._loaded(), frozenset[str]()
        for number, own in enumerate(self._query.loads, 1):
            reads |= frozenset(own)
            new = tuple(read for read in own if read not in loaded)
            if new:
                return Phase(number, len(self._query.loads) + 1, reads, new, dict(self._ends(new)))
        return None

    def sources(self) -> set[str]:
        """Return the sources that are to be loaded yet."""
        loaded = self._loaded()
        return {_source(r) for reads in self._query.loads for r in reads if r not in loaded}

    def in_hand(self) -> bool:
        """Whether a batch was planned and not finished: it must come to its end as it was planned."""
        last = self._history.last()
        return max(self._history.planned(), default=-1) > (-1 if last is None else last)

    def done(self, phase: Phase) -> None:
        """Write down that a phase has come to its end."""
        failpoint("bootstrap.before-done")
        batch = self._history.last()
        now = {
            read: {"batch": -1 if batch is None else batch, "ends": dict(phase.ends.get(read, {}))}
            for read in phase.new
        }
        write_whole(self._file, json.dumps(self._loaded() | now, indent=2, sort_keys=True))
        failpoint("bootstrap.after-done")

    def _loaded(self) -> dict[str, Any]:
        """Return the record, without what the query was taken back behind since."""
        try:
            found = json.loads(read_whole(self._file)) if self._file.exists() else {}
            last = self._history.last()
            upto = -1 if last is None else last
            return {read: facts for read, facts in found.items() if facts["batch"] <= upto}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise PipelineError(f"{self._file} can't be read: {error}") from None

    def _ends(self, reads: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, str]]]:
        for read in reads:
            source = self._plan.nodes[_source(read)].source
            if isinstance(source, Measurable):
                # It is for people to read; Spark will say if the source can't be reached.
                with suppress(Exception):
                    yield read, source.end(self._plan.home(_source(read)))


class Waiting:
    """Takes the place of the streams whose turn has not come."""

    def __init__(
        self, plan: Plan, query: Query, phase: Phase, spark: SparkSession, checkpoint: Checkpoint
    ) -> None:
        self._plan = plan
        self._query = query
        self._phase = phase
        self._spark = spark
        self._nothing = checkpoint.path / "nothing"
        history = History(checkpoint.query(query.name))
        last = history.last()
        self._reached = {} if last is None else history.offsets(last).ends

    def read(self, name: str, frame: DataFrame) -> DataFrame:
        """Return the frame of a read: its own, or one of the same columns that gives nothing."""
        return frame if name in self._phase.reads else self._instead(self._streams(name), frame)

    def control(self, node: str, name: str, frame: DataFrame) -> DataFrame:
        """Return the frame of a node's control stream, or one that gives nothing.

        What says that no older row will come must not come before the rows.
        """
        whole = node in loaded_by(self._plan, self._query, self._phase)
        return frame if whole else self._instead([name], frame)

    def _instead(self, streams: list[str], frame: DataFrame) -> DataFrame:
        begun = [name for name in streams if self._reached.get(name) is not None]
        if not begun:
            made_folder(self._nothing)
            empty = self._spark.readStream.name(streams[0]).schema(SCHEMA)
            return _in_columns(empty.json(for_spark(self._nothing)), frame.schema)
        standing = [_in_columns(self._standing(name), frame.schema) for name in begun]
        whole = standing[0]
        for other in standing[1:]:
            whole = whole.unionByName(other)
        return whole

    def _streams(self, read: str) -> list[str]:
        """Return the names under which the checkpoint knows a read: its own, and what is beside it."""
        beside = (name for name in self._reached if name.startswith(f"{read}__"))
        words = [name for name in beside if name.removeprefix(f"{read}__").isalpha()]
        return [read, *(name for name in words if name != f"{read}__control")]

    def _standing(self, name: str) -> DataFrame:
        from mainstem.run.frozen_source import FORMAT, StandingStill

        self._spark.dataSource.register(StandingStill)
        reader = self._spark.readStream.name(name).format(FORMAT)
        return reader.option("offset", json.dumps(self._reached[name])).load()


def _in_columns(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a frame without rows in other columns."""
    return frame.select(
        *(unknown_null(field.dataType).alias(field.name) for field in schema.fields)
    )


def _source(read: str) -> str:
    return read.partition("__")[0]
