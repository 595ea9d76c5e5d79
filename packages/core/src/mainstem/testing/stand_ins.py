"""What takes the place of real systems: a source of given rows, a sink that keeps what it gets."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.builtin.console import first_of_each
from mainstem.contracts.abilities import Branching
from mainstem.contracts.capabilities import SinkCapabilities
from mainstem.contracts.components import Sink, Source
from mainstem.contracts.contexts import Batch, SourceContext
from mainstem.contracts.ddl import Column, quoted
from mainstem.contracts.options import Options
from mainstem.contracts.shapes import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    MESSAGE_COLUMNS,
    REJECTED,
    Changelog,
    Inputs,
    Shape,
)
from mainstem.errors import PipelineError
from mainstem.paths import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MESSAGE = {column.name for column in MESSAGE_COLUMNS}
_HEADERS = "map<string,binary>"


class NoOptions(Options):
    """None."""


class Given(Source):
    """Gives rows that a test feeds it, in the shapes of the source it stands for.

    Attributes:
        outputs: the source's named outputs.

    Args:
        name: the source's name in the document.
        real: the source it stands for.
        folder: where the rows are put; each file is one batch.
    """

    options: NoOptions

    def __init__(self, name: str, real: Source, folder: Path) -> None:
        super().__init__(NoOptions())
        self.capabilities = real.capabilities
        self._shape = real.shape()
        self.outputs: dict[str, Shape] = (
            dict(real.outputs(Inputs({}))) if isinstance(real, Branching) else {}
        )
        self._name = name
        self._folder = folder
        self._fed = self._files = 0

    def shape(self) -> Shape:
        return self._shape

    def load(self, ctx: SourceContext) -> DataFrame:
        self._folder.mkdir(parents=True, exist_ok=True)
        columns = [column.ddl for column in self._columns()]
        if self.outputs:
            columns.append("_output STRING")
        for name, shape in self.outputs.items():
            fields = ", ".join(f"{quoted(c.name)}: {c.type}" for c in _columns_of(shape))
            columns.append(f"{quoted(f'_{name}')} STRUCT<{fields}>")
        reader = ctx.reader().schema(", ".join(columns))
        return reader.option("mode", "FAILFAST").json(for_spark(self._folder))

    def feed(self, rows: Sequence[Any], output: str = "") -> None:
        """Put rows where the next batch finds them.

        Args:
            output: of which of `outputs` they are; of the main one when left out.

        Raises:
            PipelineError: a row has a column that the source has not.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        made = [self.row(row, output) for row in rows]
        lines = [json.dumps(row) + "\n" for row in made]
        self._files += 1
        hidden = self._folder / f".{self._files:010}"
        hidden.write_text("".join(lines))
        hidden.rename(self._folder / f"{self._files:010}.json")

    def _columns(self) -> list[Column]:
        columns = _columns_of(self._shape)
        known = {column.name for column in columns}
        hidden = [name for name in self._shape.identity if name not in known]
        return columns + [Column(name, "string") for name in hidden]

    def row(self, given: Any, output: str = "") -> dict[str, Any]:
        """Return what is put there for a row.

        Raises:
            PipelineError: it has a column that the source has not.
        """
        self._fed += 1
        if output:
            shape = self.outputs[output]
            row = self._written(f"{self._name}.{output}", shape, _columns_of(shape), given)
            return {"_output": output, f"_{output}": row}
        return self._written(self._name, self._shape, self._columns(), given)

    def _written(
        self, of: str, shape: Shape, columns: Sequence[Column], given: Any
    ) -> dict[str, Any]:
        types = {column.name: column.type for column in columns}
        position = f"{self._fed:020}"
        row: dict[str, Any] = {
            n: position for n in shape.identity if n.startswith("_") and n in types
        }
        if types.keys() >= _MESSAGE:
            if not isinstance(given, Mapping) or not given.keys() <= _MESSAGE:
                given = {"value": given}
            row |= {"origin": self._name, "partition": "0", "position": position}
        elif not isinstance(given, Mapping):
            raise PipelineError(f"{of}: expected a mapping of columns, not {given!r}")
        if isinstance(shape, Changelog):
            number = position if types[COMMIT_VERSION] == "string" else self._fed
            version = given.get(shape.sequence, number) if shape.sequence else number
            row |= {CHANGE_TYPE: "insert", COMMIT_VERSION: version}
        row |= given
        unknown = sorted(row.keys() - types.keys())
        if unknown:
            columns_known = ", ".join(name for name in types if not name.startswith("_"))
            raise PipelineError(f"{of} has no column {unknown[0]!r}. Columns: {columns_known}.")
        for name, value in row.items():
            if types[name] == _HEADERS and not isinstance(value, Mapping | None):
                raise PipelineError(f"{of}, {name}: expected a mapping, not {value!r}")
        return {name: _written(value, types[name] or "") for name, value in row.items()}


def _columns_of(shape: Shape) -> list[Column]:
    """Return the columns of a shape's rows with their types; those of a change among them."""
    if shape == REJECTED:  # what the core makes one of
        return [Column("reason", "string"), Column("payload", "binary")]
    columns = [Column(column.name, column.type or "string") for column in shape.columns]
    if isinstance(shape, Changelog):
        columns += [Column(c.name, c.type or "bigint") for c in shape.change_columns]
    return columns


def _written(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "binary":
        text = value if isinstance(value, str) else json.dumps(value)
        return base64.b64encode(text.encode()).decode()
    if kind == _HEADERS:
        return {key: _written(item, "binary") for key, item in value.items()}
    return value


class Kept(Sink):
    """Keeps the rows it is given, as JSON values; a batch that comes again replaces itself.

    Times are ISO 8601 in UTC, bytes are text where they are UTF-8, else base64.

    Args:
        real: the sink it stands for, if any.
        most: keep no more rows of a batch than these.
        whole: read batches to their end all the same, as the state above must be.
        full: is called once there are so many.
    """

    options: NoOptions
    capabilities = SinkCapabilities(replaces_batch=True)

    def __init__(
        self,
        real: Sink | None = None,
        *,
        most: int | None = None,
        whole: bool = False,
        full: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(NoOptions())
        if real is not None:
            self.accepts = real.accepts
        self._most = most
        self._whole = whole
        self._full = full
        self.batches: dict[int, list[dict[str, Any]]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, batch by batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def write(self, frame: DataFrame, batch: Batch) -> None:
        from mainstem.run.sampling import as_json

        found = as_json(frame)
        if self._most is not None:
            found = first_of_each(found, self._most) if self._whole else found.limit(self._most)
        rows = [json.loads(row["row"]) for row in found.collect()]
        self.batches[batch.id] = rows[: self._most]
        if self._most is not None and len(self.rows()) >= self._most and self._full:
            self._full()


def standing_in(node: Any, sink: Sink) -> Any:
    """Return a sink node with another component, written plainly."""
    from mainstem.builtin.microbatch import Microbatch, MicrobatchOptions

    other = copy(node)
    other.component = sink
    other.delivery, other.delivery_word = Microbatch(MicrobatchOptions()), "microbatch"
    other.shadow = False
    return other
