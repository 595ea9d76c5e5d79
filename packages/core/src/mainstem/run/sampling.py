"""Takes rows out of a batch for those who look at a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from mainstem.contracts.ddl import quoted
from mainstem.contracts.shapes import ALONG, ASKED, REJECTED
from mainstem.observation.samples import REFUSED, Samples
from mainstem.plan.model import Plan, Query, SinkNode, Stream, ancestors
from mainstem.run.batch_frames import BatchFrames
from mainstem.run.failures import without_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows by output, by node.
Counts = Mapping[str, Mapping[str, int]]
_HIDDEN = "hidden: `mainstem run --show-rows` shows it"
#: So many rows are looked at for the values of a header.
_VALUES = 32
#: So many characters of a refused row are kept.
_PAYLOAD = 2_000


class Sampling:
    """What is taken of each batch of a query.

    What somebody looks at is kept by Spark for the time of its batch: nothing runs twice for them.
    """

    def __init__(self, plan: Plan, query: Query, samples: Samples) -> None:
        self._plan, self._query, self._samples = plan, query, samples
        self._wanted: Mapping[str, int] = {}
        #: Whether the rows of the batch in hand have headers with them.
        self._headed = False
        self._refusing = [
            name
            for name in (query.tail, *query.per_batch)
            if samples.show_rows and plan.readers(name, "rejected")
        ]

    def begin(self, frame: DataFrame) -> frozenset[str]:
        """Return the nodes whose rows will be taken of the batch that begins.

        Args:
            frame: the batch, as Spark gives it.
        """
        self._wanted = self._samples.wanted(self._query.name)
        nodes = {name.partition(".")[0] for name in self._wanted}
        for name in [each for each in nodes if isinstance(self._plan.nodes[each], SinkNode)]:
            nodes |= {stream.node for stream in self._plan.nodes[name].streams}
        self._headed = ASKED in frame.columns
        if self._headed:
            nodes.add(self._query.tail)
        return frozenset({*nodes, *self._refusing})

    def take(
        self,
        made: BatchFrames,
        batch: int,
        counts: Counts,
        given: Callable[[BatchFrames, SinkNode], DataFrame],
    ) -> None:
        """Take rows of a batch that is written; what fails here is told and fails nothing else.

        Args:
            counts: the rows of each node by output; of a sink, what it refused.
            given: returns what a sink is given.
        """
        for name, most in self._wanted.items():
            with _told():
                self._samples.put(name, batch, self._rows(made, name, most, counts, given))
        if self._headed:
            with _told():
                values = {name: self._values(made, name) for name in self._samples.headers}
                self._samples.put_values(self._query.name, batch, values)
        if self._samples.show_rows:
            with _told():
                self._take_refused(made, batch, counts)

    def _rows(
        self,
        made: BatchFrames,
        name: str,
        most: int,
        counts: Counts,
        given: Callable[[BatchFrames, SinkNode], DataFrame],
    ) -> list[dict[str, Any]]:
        node_name, _, output = name.partition(".")
        node = self._plan.nodes[node_name]
        if not isinstance(node, SinkNode):
            stream = Stream(node_name, output)
            frame, shape = made.read(stream), self._plan.shape(stream)
        elif not output:
            frame, shape = given(made, node), self._plan.shape(node.streams[0])
        elif counts.get(node_name, {}).get(output):
            frame, shape = made.read(Stream(node_name, output)), REJECTED
        else:
            return []
        rows = json_rows(frame, most)
        if self._samples.show_rows:
            return rows
        if shape == REJECTED:
            for row in rows:
                row |= {"reason": without_values(row["reason"]), "payload": _HIDDEN}
            return rows
        return [{"row": _HIDDEN} for _ in rows] if self._of_refused(node_name) else rows

    def _of_refused(self, name: str) -> bool:
        """Whether rows of a node, or some of them, are made of what was refused."""
        nodes = {name, *ancestors(name, self._plan.nodes)}
        streams = [stream for each in nodes for stream in self._plan.nodes[each].streams]
        return any(self._plan.shape(each) == REJECTED for each in streams)

    def _values(self, made: BatchFrames, header: str) -> list[str]:
        found = made.whole(self._query.tail).select(F.col(ASKED)[header].alias("value"))
        rows = found.where("value IS NOT NULL").limit(_VALUES).collect()
        return list(dict.fromkeys(row["value"] for row in rows))

    def _take_refused(self, made: BatchFrames, batch: int, counts: Counts) -> None:
        sinks = [name for name in self._query.sinks if counts.get(name, {}).get("rejected")]
        for name in (*self._refusing, *sinks):
            if counts.get(name, {}).get("rejected", 1):
                rows = json_rows(made.read(Stream(name, "rejected")), REFUSED)
                for row in rows:
                    row["payload"] = self._plan.scrubber.clean(row["payload"] or "")[:_PAYLOAD]
                self._samples.put_refused(name, batch, rows)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what fails into a warning: who looks ends no run."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        logging.getLogger(__name__).warning("the rows of a batch can't be shown: %s", kind)


def json_rows(frame: DataFrame, most: int) -> list[dict[str, Any]]:
    """Return some of a frame's rows as JSON values; see `as_json`."""
    return [json.loads(row["row"]) for row in as_json(frame).limit(most).collect()]


def as_json(frame: DataFrame) -> DataFrame:
    """Return rows as JSON, in a column `row`.

    Times are ISO 8601 in UTC, bytes are text where they are UTF-8, else base64.
    """
    columns = []
    for name, kind in frame.drop(*ALONG).dtypes:
        text = quoted(name)
        if kind == "binary":
            as_text = f"try_validate_utf8(CAST({text} AS STRING))"
            text = f"coalesce({as_text}, base64({text}))"
        columns.append(F.expr(text).alias(name))
    settings = {
        "ignoreNullFields": "false",
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    }
    return frame.select(F.to_json(F.struct(*columns), settings).alias("row"))
