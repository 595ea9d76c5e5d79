"""Finds steps that need state, or a whole table, in frames that a user's own SQL or Python made.

Above an anchor Spark would keep state that the plan knows nothing of; below it, where frames are
batches, Spark would happily work on each batch alone. So such frames are built once over empty
streams, whatever they will run on, and Spark's plan of them is looked through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mainstem import Inputs, OptionError
from mainstem.analysis.words import AGGREGATE, STEPS
from mainstem.catalogue import install_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Beginnings of the names of nodes that work on groups in Python, Java or Scala.
_GROUPED = ("FlatMapGroups", "FlatMapCoGroups", "MapGroups", "CoGroup", "TransformWithState")
#: Nodes that can give several rows for one.
_MULTIPLYING = {"Generate": "explodes rows", "Union": "unites rows", "Join": "joins rows"}


def stand_ins(inputs: Inputs[DataFrame]) -> Inputs[DataFrame]:
    """Return empty streams with the columns of the inputs."""
    from pyspark.sql import functions as F  # noqa: N812

    made: Inputs[DataFrame] = Inputs()
    for port, frame in inputs.items():
        stream = frame.sparkSession.readStream.name(f"{port}_stand_in").format("rate").load()
        columns = [F.lit(None).cast(f.dataType).alias(f.name) for f in frame.schema.fields]
        made[port] = stream.select(*columns)
    return made


def refuse_state(frame: DataFrame, option: str, *, row_wise: bool) -> None:
    """Refuse a frame over `stand_ins` whose plan is not a plain step from rows to rows.

    Raises:
        OptionError: names the step and what to use instead; `option` is the one at fault.
    """
    from pyspark.errors import AnalysisException

    java: Any = frame._jdf
    if not frame.isStreaming:
        raise OptionError("gives a table that does not come from its input", option=option)
    for node in _nodes(java.queryExecution().analyzed()):
        _refuse(node, option, row_wise=row_wise)
    jvm: Any = frame.sparkSession._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        checker.checkForStreaming(java.logicalPlan(), append)
    except AnalysisException as error:
        text = str(error).split(";\n")[0].splitlines()[0]
        raise OptionError(f"does not work on streams: {text}", option=option) from error


def _refuse(node: Any, option: str, *, row_wise: bool) -> None:
    name = node.getClass().getSimpleName()
    children = _list(node.children())
    if not node.isStreaming():
        return
    if row_wise and name in _MULTIPLYING:
        message = f"{_MULTIPLYING[name]}, while `row_wise: true` says that each row stays one"
        hint = "Leave out `row_wise`, and name the columns that tell rows apart as `identity`."
        raise OptionError(message, option=option, hint=hint)
    if name.endswith("Join") and sum(child.isStreaming() for child in children) < 2:
        return  # with a table that does not stream
    found = STEPS.get(name)
    if found is None and name.startswith(_GROUPED):
        found = ("a step over groups of rows", AGGREGATE)
    if found is not None:
        step, instead = found
        hint = " ".join(filter(None, [instead, _install(instead)]))
        raise OptionError(f"keeps no state, and has {step}", option=option, hint=hint)


def _install(instead: str) -> str:
    """Return how to install the operator that a hint names, where the catalogue knows it."""
    word = next((w for w in ("aggregate", "stream_table_join") if f"`{w}`" in instead), "")
    line = install_line("operator", word)
    return f"({line})" if line else ""


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _list(plan.children()):
        yield from _nodes(child)


def _list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
