"""Abilities: small contracts that a component implements when it can, and names among its bases.

The core and the strategies ask with `isinstance`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from mainstem.contracts.ability import Ability
from mainstem.contracts.ddl import Column
from mainstem.contracts.shapes import Inputs, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem.contracts.components import Operator, Sink, Source
    from mainstem.contracts.contexts import Batch


@dataclass(frozen=True)
class StateFacts:
    """What the state of an operator is.

    `version` is that of its layout and `shaped_by` the options that decide the layout: when either
    differs from the checkpoint's, the state can't be used as it is. `grows` says why the state
    grows without bound, or is empty when it does not. `holds` is how far the watermark must pass a
    row's event time until everything the row takes part in has come out. `gains` are the keys of
    `shaped_by` whose lists or mappings may have more entries than the checkpoint's: the state then has
    nulls for them.
    """

    version: int
    shaped_by: Mapping[str, object] = field(default_factory=dict)
    grows: str = ""
    holds: timedelta = timedelta(0)
    #: Spark's output mode for a query that ends in this operator: `append` or `update`.
    output_mode: str = "append"
    #: Rows come out when the watermark has passed them, not with the batch that brings them.
    waits: bool = False
    #: Spark drops and lets go of its rows by their event time, which must be ahead of the watermark.
    by_time: bool = False
    #: It tells late rows by the watermark of its query (see `OperatorContext.behind`), so no step that
    #: holds rows back may stand above it there: a relay comes between.
    tells_late: bool = False
    #: It is kept by transformWithState, which not every state store can do; see `StateStoreCapabilities`.
    keyed: bool = False
    #: Where it is kept and why there, in a few words that follow "kept", where an operator has a choice.
    kept: str = ""
    gains: frozenset[str] = frozenset()


class Stateful(Ability):
    """An operator that keeps state between batches; it anchors a query."""

    @abstractmethod
    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        """Return what the state is, given the shapes at the ports. Called without Spark."""


class LoadedFirst(Ability):
    """An operator with state that must know what stands at some ports before it sees the others' rows.

    The runner loads those ports before: it runs the query on the sources above them alone, to the end
    that each has when the run starts, and lets the other sources begin after that. So `apply` is
    called as ever, and its frame sees batches in which the other ports are empty: it must give no row
    of the main output for those. What comes to those ports later, comes with the rest.
    """

    @abstractmethod
    def loaded_first(self) -> frozenset[str]:
        """Return the names of those ports, not all that there are. Called without Spark."""


class Branching(Ability):
    """An operator or a source with outputs beside its main one, such as `rejected` or `late`.

    `apply`, or `load`, then returns one frame with the reserved column `_output`: null for rows of
    the main output, else the output's name, with the row in the reserved struct column `_<output>`
    (`_rejected`: reason STRING, payload BINARY). The core splits the frame.
    """

    @abstractmethod
    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """Return the named outputs and their shapes; a source has no inputs. Called without Spark."""


class Recorded(Ability):
    """An operator that would give other rows if a batch were done again: it asks somebody else.

    It works in two steps, as nodes of their own. What the first gives for a batch, all of it or nothing,
    is written down in the checkpoint, by a relay, before the second or anything below has it. So
    whatever breaks, each row has one answer, and all below see the same one.
    """

    @abstractmethod
    def recorded(self) -> Operator | None:
        """Return the first step, which has this operator's ports and is stateless; called without Spark.

        Its main output stands at each port of the second, which is this operator. None if nothing is to
        be written down; then this operator is all there is.
        """


class Answerable(Ability):
    """An operator that asks an external system about its rows, for which a test can answer."""

    @abstractmethod
    def answered(self, rows: Sequence[Mapping[str, Any]]) -> Operator:
        """Return an operator that does the same, but asks nobody: rows say what the answers are.

        Args:
            rows: JSON values of the columns that are asked by and of those that are answered.

        Raises:
            OptionError: a row has other columns.
        """


class Expressions(Ability):
    """A component whose options hold SQL expressions: lets a failure be traced to its node."""

    @abstractmethod
    def expressions(self) -> Mapping[str, str]:
        """Return the expressions as written, by the key of the option that holds each."""


@dataclass(frozen=True)
class Statement:
    """SQL that stands in an option, for Spark's analyser.

    `before`, the text and `after` are a query over tables that are named as the ports are.

    Attributes:
        option: the key of the option.
        text: the SQL as written.
        form: `rows`: an expression of one row; `totals`: an aggregate; `query`: a whole query.
        column: the column that the SQL gives, whose type the plan then knows.
        columns: what a whole query gives, as the document declares it.
        distinct: whether aggregates over distinct values can be computed, which Spark can't on streams.
    """

    option: str
    text: str
    form: Literal["rows", "totals", "query"] = "rows"
    before: str = "SELECT ("
    after: str = ") AS `value` FROM `input`"
    column: str | None = None
    columns: tuple[Column, ...] = ()
    distinct: bool = False

    @staticmethod
    def condition(option: str, text: str) -> Statement:
        """Return a statement of what is true or false of a row."""
        return Statement(
            option, text, before="SELECT IF((", after="), 1, 0) AS `value` FROM `input`"
        )


@dataclass(frozen=True, order=True)
class Dataset:
    """What is read or written, as catalogues of data know it.

    Attributes:
        namespace: the system: `kafka://broker:9092`, `postgres://host:5432`, `file`; without a login.
        name: what is there: a topic, `database.schema.table`, a path.
    """

    namespace: str
    name: str

    @staticmethod
    def at_server(system: str, url: str, port: int, name: str) -> Dataset:
        """Return what is at the first server of a URL, whose login is left out.

        Args:
            system: its name in catalogues.
            port: the usual one, where the URL has none.
        """
        host = urlsplit(url).netloc.rpartition("@")[2].partition(",")[0]
        told = host if re.search(r":\d+$", host) else f"{host}:{port}"
        return Dataset(f"{system}://{told}", name)


class Located(Ability):
    """A source or a sink that can name what it reads or writes, by OpenLineage's convention for names."""

    @abstractmethod
    def datasets(self, output: str) -> Sequence[Dataset]:
        """Return what it is; called without Spark.

        Args:
            output: of a source whose named outputs are of different things, the output; empty for the
                main one, and for a sink.
        """


class Deriving(Ability):
    """An operator that says of which columns it makes its own, where names and SQL do not tell."""

    @abstractmethod
    def made_of(self, inputs: Inputs[Shape]) -> Mapping[str, Iterable[tuple[str, str]]]:
        """Return the ports and columns that columns of its main output are made of.

        Columns that are left out are made as `mainstem.lineage` says. Called without Spark.
        """


class Checked(Ability):
    """A component whose SQL Spark can look at before it starts: for `mainstem validate`."""

    @abstractmethod
    def statements(self, inputs: Inputs[Shape]) -> Sequence[Statement]:
        """Return the SQL of all options, given the shapes at the ports. Called without Spark."""


@dataclass(frozen=True)
class Reached:
    """How far a query has read a source.

    `offset` is the source's own, as the checkpoint has it; None before the first batch is done.
    `spark_folder` is where Spark keeps the source's files in that checkpoint, and `home` the node's
    durable folder; they need not exist.
    """

    offset: Any
    spark_folder: Path
    home: Path


@dataclass(frozen=True)
class Lag:
    """How much of a partition is there and not read yet.

    `rows` is None where the source can't tell; `seconds` is the age of the oldest row not read, 0.0
    when all is read.
    """

    partition: str
    rows: int | None
    seconds: float | None


class Measurable(Ability):
    """A source that can say where it ends now: for lag, and for loading a table before use."""

    @abstractmethod
    def end(self, home: Path) -> Mapping[str, str]:
        """Return the end of each partition, in the terms of the source's offsets.

        `home` is the node's durable folder; it need not exist.
        """

    @abstractmethod
    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return how much each partition is ahead of what was read. Called without Spark."""


class Rewindable(Ability):
    """A source that can start elsewhere, or again: for replay and rollback."""

    @abstractmethod
    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> Source:
        """Return this source starting at a time, at `earliest`, or after one of its own offsets.

        Raises:
            OptionError: the source no longer has that point, or can't start at one of that kind; says
                what it has.
        """

    @abstractmethod
    def gone(self, since: Reached) -> str:
        """Return what can't be read again of the rows after a point; empty if nothing is gone.

        After an offset of None: of all rows that the checkpoint was read for; where it does not say since
        when, of all there ever were, as far as anybody can tell.
        """


@dataclass(frozen=True)
class Trace:
    """Where a source has a message.

    Attributes:
        place: the columns that tell its row from others, by name, as the row has them.
        found: the same for who looks for it, in words: `receiver 0, segment 12`.
        at: when it was stored there, or is said to be from.
        refused: why the source itself refused it; empty if it did not.
        value: what it holds; None where that is not known.
    """

    place: Mapping[str, str]
    found: str
    at: datetime | None = None
    refused: str = ""
    value: bytes | None = None


class Traceable(Ability):
    """A source that can find a message again, and say whether a batch has it: for `where`."""

    @abstractmethod
    def traces(self, home: Path, message: str, key: str) -> Iterator[Trace]:
        """Yield the messages that are asked for, as far as they are still there. Called without Spark.

        Args:
            home: the node's durable folder; it need not exist.
            message: the id that the external system knows it by, or PARTITION/POSITION; empty for all
                with the key.
            key: the message's key, as text; empty for the one with the id.

        Raises:
            OptionError: it can't be looked for in this way; says how.
            ExternalError: the external system can't be asked.
        """

    @abstractmethod
    def reached(self, trace: Trace, offset: Any) -> bool:
        """Whether a read that came to an offset, as the checkpoint has it, has a message behind it."""


class Punctuated(Ability):
    """A source that reports its own event-time progress, by the column that its shape names.

    Its frame has, beside the rows, rows that are null but for the reserved column `_watermark`: a
    TIMESTAMP before which no later row is, null in the others. They move the watermark, which the rows'
    own times do not, and are dropped there. The document gives such a source no watermark.
    """

    @abstractmethod
    def punctuates(self) -> bool:
        """Return whether it does, as its options and its shape are."""


class Advising(Ability):
    """A component that knows what to do about failures that Spark reports for it."""

    @abstractmethod
    def advice(self, failure: str) -> str:
        """Return the next step for who reads `failure`, a failed query's message; empty if unknown."""


class Recovering(Ability):
    """A source that can go on after a failure that Spark reports for it, when it is loaded anew."""

    @abstractmethod
    def recovers(self, failure: str) -> str:
        """Return why the query is to be restarted; empty to let `failure`, its message, end the run.

        The source is loaded once more then, and may load something else over the same checkpoint.
        """


class Verifiable(Ability):
    """A source that keeps files in its durable folder, and can look whether they are what it wrote."""

    @abstractmethod
    def damage(self, home: Path) -> Iterable[str]:
        """Return what is wrong with the files in the node's folder, each in words; `verify` tells it."""


class Typed(Ability):
    """A sink that can't hold every type of column, and says so before the first batch."""

    @abstractmethod
    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Look at what `write` will be given.

        Called when a document is planned, where the type of a column can be None: only Spark can know it;
        and before any query starts, with all types. Needs no Spark.

        Args:
            columns: all, reserved ones too.
            shape: what the rows are.

        Raises:
            OptionError: a column can't be held, or not without a change of its values; names it.
        """


class Prepared(Ability):
    """A sink that makes its external system ready, and finds its faults, before a run starts."""

    @abstractmethod
    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Make what is missing at the external system and compare what is there with what will be
        written.

        Called before any query starts, perhaps more than once; needs no Spark.

        Args:
            columns: those that `write` will be given, all of known type, reserved ones too.
            shape: what the rows are.

        Raises:
            OptionError: what is there does not fit; names it.
            PipelineError: the external system can't be reached, or forbids it.
        """


class Forgetful(Ability):
    """A sink that can take back what later batches of a checkpoint wrote: for rollback."""

    @abstractmethod
    def forget(self, query_id: str, after: int) -> None:
        """Remove what the batches after `after` of a checkpoint wrote; harmless when repeated."""


@dataclass(frozen=True)
class HelperProcess:
    """A process that the runner starts before the first query and watches.

    `argv` is started with what any program needs of this process's environment (paths, languages,
    proxies, certificates), with variables whose names begin as one of `inherits` says, and `env`;
    `name` is shown. What it is given, `stdin`, is the place for secrets: those of the environment,
    such as those of `${env:}`, do not reach it. Standard input then stays open: its end means that the
    process is no longer wanted, and it is to finish what it has in hand and end with 0.

    The process tells of itself by JSON objects, one on each line of its standard output, of which
    these keys mean something to the runner; all are shown:

    - `state`: in a word; shown, with `why`, when it is not `running`
    - `rows`: how many it has handled since it began
    - `ready`: whether a bounded run can begin to read
    - `state: failed` and `why`: no restart would help; the run ends

    If it ends without that and is still wanted, it is started again, with growing pauses.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = field(default=b"", repr=False)
    inherits: Sequence[str] = ()
    #: Descriptors of this process's that it is handed, under the same numbers.
    descriptors: Sequence[int] = ()


class Supervised(Ability):
    """A component that needs helper processes beside Spark."""

    @abstractmethod
    def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
        """Return the processes; `node` is the name in the document, `home` the durable folder."""


class AfterBatch(Ability):
    """A source that publishes how far a finished query has read; never ahead of what is written."""

    @abstractmethod
    def after_batch(self, ends: Sequence[Any]) -> None:
        """Publish what all reads of the source have behind them; called after a batch was committed.

        Called in a thread of its own, by a run of the pipeline itself alone (not by a replay), perhaps
        not for each batch, and again with what was told before. A failure is shown, and it is called
        again with the next batch.

        Args:
            ends: for each read of this source in the document's queries the offset, as in the
                checkpoint, up to which what was read is written; None for a read that has finished no
                batch.
        """


class Transactional(Ability):
    """A sink whose external system commits a batch's rows and a ledger entry in one transaction."""

    @abstractmethod
    def committed(self, batch: Batch) -> bool:
        """Whether the external system's ledger says that this batch is in.

        What the batch refused is told by `write_once` alone: who skips a batch because it is in loses
        that.
        """

    @abstractmethod
    def write_once(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write rows and ledger entry in one transaction; arguments and result as `Sink.write`.

        The ledger is asked in the same transaction: if the batch is in, nothing is written, and what
        was refused then is returned again. The frame is evaluated all the same: Spark wants the state
        of every batch stored, and the watermark to move.

        Raises:
            FencedError: the ledger has seen a run of this checkpoint with a higher epoch, or a later
                batch: what runs here is an old copy of the checkpoint.
        """


class Staged(Ability):
    """A sink that executors can fill in parallel at a place nobody reads, published all at once.

    A run that was replaced can neither remove what a newer run has staged nor add to it, and what was
    staged and is gone is never published as if it had been empty: `publish` then raises, or stages anew.
    """

    @abstractmethod
    def stage(self, frame: DataFrame, batch: Batch) -> Any:
        """Write the batch where nobody reads it and return what `publish` needs to find it."""

    @abstractmethod
    def publish(self, staged: Any, batch: Batch) -> DataFrame | None:
        """Make the staged batch visible, all at once, with a ledger entry.

        The ledger is asked as by `write_once`; result and errors are those of `write_once`.
        """

    @abstractmethod
    def discard(self, batch: Batch) -> None:
        """Remove what earlier tries, and runs that have been replaced, left at the staging place."""


class KeyedWrites(Ability):
    """A sink that compares and sets by key: an older row never overwrites a newer one."""

    @abstractmethod
    def write_keyed(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write the changes whose `_commit_version` is above that stored for their key; skip the rest.

        `batch.shape` is a `Changelog`: it names the key. Deletes are remembered, so that an older
        change does not bring a key back. Without a `sequence` changes come in the order of their
        batches, so that a batch written again just sets the same rows.

        Raises:
            FencedError: the external system has seen a run of this checkpoint with a higher epoch.
        """


class IdentifiedWrites(Ability):
    """A sink that knows the rows it has by their `_id`."""

    @abstractmethod
    def write_new(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write the rows whose `_id` is not there yet; skip the rest.

        Raises:
            FencedError: the external system has seen a run of this checkpoint with a higher epoch.
        """


class NumberedWrites(Ability):
    """A sink whose external system drops what has a number that it has seen.

    The rows of a batch have the same numbers in each try (see `mainstem.sinks.numbered`), above those of
    the batches before.
    """

    @abstractmethod
    def write_numbered(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write a batch of which some rows may be there: those are dropped; as `Sink.write` otherwise.

        Raises:
            FencedError: the external system has seen a run of this checkpoint with a higher epoch, or
                rows of a later batch: what runs here is an old copy of the checkpoint.
        """

    def unnumbered(self) -> str:
        """Return which option rows can't have numbers with, and why; empty if they can."""
        return ""


class Swappable(Ability):
    """A sink that can be built under another name and put in place at once: for `replay --rebuild`."""

    @abstractmethod
    def beside(self, suffix: str) -> Sink:
        """Return a sink of the same kind and abilities that writes to a place of its own."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what has been written, for a sink `beside` that starts over."""

    @abstractmethod
    def swap(self, built: Any) -> None:
        """Put what `built`, a sink `beside`, has written in this sink's place, at once for readers.

        What this sink has written is gone afterwards. Harmless when repeated: nothing is done if
        there is nothing of `built`.
        """


@dataclass(frozen=True)
class Compared:
    """How rows are compared with what an external system holds of them: SQL, all of type STRING.

    Attributes:
        key: what tells a row from others, over the rows that `write` is given.
        content: what the external system should hold of it; JSON compares by its values.
        held: the columns of what it holds, as DDL.
        held_key, held_content: the same two, over these.
    """

    key: str
    content: str
    held: str
    held_key: str
    held_content: str


class Comparable(Ability):
    """A sink that can say all that its external system holds, and put it right: for `verify`."""

    @abstractmethod
    def compared(self, columns: Sequence[Column], shape: Shape) -> Compared:
        """Return how rows are compared.

        Args:
            columns: those that `write` is given, all of known type.
            shape: what the rows are.

        Raises:
            OptionError: rows of this shape can't be told apart there.
        """

    @abstractmethod
    def held(
        self, columns: Sequence[Column], shape: Shape, take: Callable[[pa.RecordBatch], None]
    ) -> None:
        """Give all that the external system holds, part by part, in the columns of `Compared.held`.

        Raises:
            PipelineError: it can't be read.
        """

    @abstractmethod
    def repair(self, rows: DataFrame | None, extra: DataFrame | None, batch: Batch) -> None:
        """Set rows whatever is held of their keys, and remove others. The pipeline stands still.

        Args:
            rows: as `write` is given them, one of each key.
            extra: what is held and should not be, in the columns of `Compared.held`.
            batch: of a checkpoint of its own.
        """


class Readable(Ability):
    """A sink that can give back the rows that it has written: for `deadletters`."""

    @abstractmethod
    def read(self, columns: Sequence[Column]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows that are there, each with some of its columns, as Python has their types.

        Raises:
            PipelineError: they can't be read.
        """
