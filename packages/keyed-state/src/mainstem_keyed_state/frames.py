"""The Spark side of an operator with state by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from mainstem import Needs, OperatorContext, OptionError, PluginError
from mainstem.columns import EVENT_TIME, quoted

from mainstem_keyed_state.columns import (
    arriving,
    polars_schema,
    spark_type,
    travelled,
    travelling,
)
from mainstem_keyed_state.keys import KeyKind
from mainstem_keyed_state.layout import layout_of
from mainstem_keyed_state.logic import KEY, MAIN, Logic
from mainstem_keyed_state.outputs import IDENTITY, OUTPUT, PACKED_OUTPUTS, Whole, unpack
from mainstem_keyed_state.packing import PACKED, packer
from mainstem_keyed_state.pages import PAGE_BYTES
from mainstem_keyed_state.runner import PORTION_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CAN_NOT = "HDFSBackedStateStoreProvider"


def spark_needs() -> Needs:
    """Return what an operator with state by key wants of the session, for its `needs`.

    One thread for Polars in each worker: Spark already runs a worker on each core.
    """
    return Needs(conf={"spark.executorEnv.POLARS_MAX_THREADS": "1"})


@dataclass(frozen=True)
class Port:
    """What stands at a port.

    Attributes:
        frame: the rows.
        key: SQL expressions over the frame; as many as those of the other ports, equal one by one. Ports
            in `Logic.everywhere` each have keys of their own.
    """

    frame: DataFrame
    key: Sequence[str]


def keyed(
    logic: Logic,
    ports: Mapping[str, Port],
    ctx: OperatorContext,
    *,
    name: str = "",
    nulls_equal: bool = False,
    event_time: str | None = None,
    types: Mapping[str, Mapping[str, str | DataType]] | None = None,
    page_bytes: int = PAGE_BYTES,
    portion_bytes: int = PORTION_BYTES,
) -> DataFrame:
    """Return the frame of an operator whose work a logic does, for its `apply`.

    The frame has the columns of the main output and, if the logic has named ones, `_output` and their
    structs. An output `rejected` may have `_id` beside `reason` and `payload`, if the main one has it.

    Args:
        logic: its `ports` are what `polars_schema` says of the frames.
        ports: the frames and keys, by port.
        ctx: as `apply` was given it.
        name: tells this state from others of the same node; letters, digits and `_`.
        nulls_equal: whether null equals null in a key; else a row with a null has no key.
        event_time: a column of the main output that stateful steps below may use as event time.
        types: Spark types of output columns, as such or as DDL text, by output and column. Without: that
            of the column of the same name and kind at a port, or the nearest.
        page_bytes: the bytes above which a page of state is cut.
        portion_bytes: about how many bytes of rows and state one call of `step` is given.

    Raises:
        OptionError: the keys can't be compared, or are not those of the checkpoint; or the state
            store can't hold state by key.
        PluginError: the logic declares other ports than there are.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from mainstem_keyed_state.buckets import Buckets
    from mainstem_keyed_state.processor import BucketProcessor

    _check(logic, ports)
    if (ctx.spark.conf.get(_PROVIDER) or "").endswith(_CAN_NOT):
        message = "this operator keeps state by key, which the state store can't hold"
        raise OptionError(message, hint="Write `state: {use: rocksdb}` in the document.")
    given = {at: (port.frame, port.key) for at, port in ports.items() if at not in logic.everywhere}
    kind = KeyKind.of(given, nulls_equal=nulls_equal)
    labels = layout_of(ctx, name, kind, logic).labels
    packed: Any = None
    for number, (at, port) in enumerate(ports.items()):
        own, copies = kind, None
        if at in logic.everywhere:
            own = KeyKind.of({at: (port.frame, port.key)}, nulls_equal=nulls_equal)
            copies = number + len(ports)
        fields = port.frame.schema.fields
        columns = [travelling(f.name, f.dataType) for f in fields]
        rows = port.frame.selectExpr(f"{own.sql(port.key)} AS {KEY}", *columns)
        # PySpark can't hand over a column whose name has a dot or a backtick in it.
        rows = rows.toDF(KEY, *(f"c{n}" for n in range(len(columns))))
        part = rows.mapInArrow(packer(number, labels, copies), PACKED)
        packed = part if packed is None else packed.union(part)
    # Spark wants an event time, and drops what is late by it: null never is, the logic decides.
    null = F.lit(None).cast("timestamp")
    packed = packed.select("*", null.alias("never_late", metadata={EVENT_TIME: 0}))
    columns_at = {at: pl.Schema({KEY: pl.Binary(), **logic.ports[at]}) for at in ports}
    told = _told(logic, ports, types or {}, ctx.spark)
    buckets = Buckets(logic, columns_at, told.whole, (page_bytes, portion_bytes))
    processor = BucketProcessor(buckets, state_name(ctx.node, name))
    grouped: Any = packed.groupBy("bucket")
    done = grouped.transformWithStateInPandas(processor, PACKED_OUTPUTS, "append", "eventTime")
    return _outputs(told, done.mapInArrow(unpack, told.arriving), event_time)


def _check(logic: Logic, ports: Mapping[str, Port]) -> None:
    name = type(logic).__name__
    if set(logic.ports) != set(ports):
        raise PluginError(f"{name} declares ports {sorted(logic.ports)}, not {sorted(ports)}")
    for port, at in ports.items():
        found = polars_schema(at.frame)
        if pl.Schema(logic.ports[port]) != found:
            raise PluginError(f"{name} declares {dict(logic.ports[port])} at {port}: {dict(found)}")
        if KEY in found:
            raise PluginError(f"{name}: the rows at {port} have a column {KEY} already")
    for table, kind in logic.tables.items():
        if not table or KEY in kind.columns:
            raise PluginError(f"{name}: a table needs a name, and no column {KEY}: {table!r}")
        if kind.due is not None and kind.columns.get(kind.due) != pl.Datetime("us", "UTC"):
            raise PluginError(f"{name}: table {table!r}: {kind.due} is no Datetime('us', 'UTC')")


def state_name(node: str, name: str) -> str:
    """Return the name of the state variable of one of a node's states."""
    return f"pages_{node}__{name}" if name else f"pages_{node}"


@dataclass(frozen=True)
class _Told:
    """The columns of the outputs.

    Attributes:
        main: those of the main output.
        named: those of each named output.
        whole: those of all together, as Arrow has them.
    """

    main: StructType
    named: Mapping[str, StructType]
    whole: Whole

    @property
    def arriving(self) -> StructType:
        """All columns as they come back from Arrow."""
        from pyspark.sql.types import StructField, StructType

        fields = list(arriving(self.main))
        if self.named:
            fields.append(StructField(OUTPUT, spark_type(pl.String())))
            fields += [StructField(f"_{n}", arriving(kinds)) for n, kinds in self.named.items()]
        return StructType(fields)


def _told(
    logic: Logic,
    ports: Mapping[str, Port],
    types: Mapping[str, Mapping[str, str | DataType]],
    spark: Any,
) -> _Told:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    known = {
        name: _spark_columns(logic.outputs[name], ports, types.get(name, {}), spark)
        for name in logic.outputs
    }
    main = known.get(MAIN, StructType())
    named = {n: _without_identity(n, kinds) for n, kinds in known.items() if n != MAIN}

    def arrow(kinds: StructType) -> Any:
        return to_arrow_schema(arriving(kinds), timezone=zone)

    whole = Whole(arrow(main), {name: arrow(kinds) for name, kinds in named.items()})
    return _Told(main, named, whole)


def _outputs(told: _Told, frame: DataFrame, event_time: str | None) -> DataFrame:
    """Return what came of the outputs as the columns that the core splits."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [f"{travelled(quoted(f.name), f.dataType)} AS {quoted(f.name)}" for f in told.main]
    if told.named:
        columns += [OUTPUT, *(_struct(name, kinds) for name, kinds in told.named.items())]
    frame = frame.selectExpr(*columns)
    if event_time is not None:
        marked = F.col(quoted(event_time)).alias(event_time, metadata={EVENT_TIME: 0})
        frame = frame.select(
            *(marked if n == event_time else F.col(quoted(n)) for n in frame.columns)
        )
    return frame


def _spark_columns(
    schema: Mapping[str, Any],
    ports: Mapping[str, Port],
    told: Mapping[str, str | DataType],
    spark: Any,
) -> StructType:
    """Return the Spark types of an output's columns."""
    from pyspark.sql.types import StructField, StructType

    there: dict[str, list[tuple[pl.DataType, DataType]]] = {}
    for port in ports.values():
        kinds = polars_schema(port.frame)
        for field in port.frame.schema:
            there.setdefault(field.name, []).append((kinds[field.name], field.dataType))

    def type_of(name: str, kind: pl.DataType) -> DataType:
        if (given := told.get(name)) is not None:
            return spark._parse_ddl(f"c {given}")[0].dataType if isinstance(given, str) else given
        same = [found for at_port, found in there.get(name, ()) if at_port == kind]
        return same[0] if same else spark_type(kind)

    return StructType([StructField(n, type_of(n, kind)) for n, kind in pl.Schema(schema).items()])


def _without_identity(name: str, kinds: StructType) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([f for f in kinds if name != "rejected" or f.name != IDENTITY])


def _struct(name: str, kinds: StructType) -> str:
    """Return the SQL of a named output's struct, its columns as Spark has them."""
    inside = quoted(f"_{name}")
    columns = {f.name: f"{inside}.{quoted(f.name)}" for f in kinds}
    if all(travelled(columns[f.name], f.dataType) == columns[f.name] for f in kinds):
        return inside
    parts = [f"{travelled(columns[f.name], f.dataType)} AS {quoted(f.name)}" for f in kinds]
    return f"IF({inside} IS NULL, NULL, struct({', '.join(parts)})) AS {inside}"
