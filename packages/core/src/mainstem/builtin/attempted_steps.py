"""A step that the user wrote, run so that the rows are refused for which one of its expressions fails.

What `sql` and `python` give is a frame, and Spark's plan of it over a stand-in of the input tells what
it computes: columns and conditions, one above the other. They are computed again over the input itself,
each as an attempt. A Python function of single values is wrapped, for what it raises ends a task whatever
is around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainstem import OptionError
from mainstem.attempts import attempt, row_as_json
from mainstem.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: Columns of the frame that `attempted` returns.
REASON, PAYLOAD = "__reason", "__payload"
#: Begins the name of a reserved column of the input as it came.
CAME = "__came"
_ATTEMPT, _FAILED = "__attempt", "__failed"
#: Spark's numbers for functions that are called with the values of one row.
_BY_ROW = {100: False, 101: True}  # whether the values come by Arrow


def attempted(made: DataFrame, stand_in: DataFrame, given: DataFrame, at: str) -> DataFrame:
    """Return a user's step over an input, with the rows that it fails for.

    Args:
        made: the step's frame over `stand_in`.
        given: the input, with the columns of the stand-in.
        at: the option that holds the step, for errors.

    Returns:
        The step's columns, `__payload` (BINARY: the row as it came, as JSON), `__reason` (STRING: what
        failed; null where nothing did), and each reserved column of the input, its name after `__came`.

    Raises:
        OptionError: the step does more than to compute columns and to drop rows.
    """
    java: Any = made._jdf
    catalyst = _jvm(made).org.apache.spark.sql.catalyst
    plan = java.queryExecution().analyzed()
    plan = catalyst.analysis.EliminateSubqueryAliases.apply(plan)
    plan = catalyst.analysis.EliminateView.apply(plan)
    leaves = _output(stand_in)
    ids = [leaf.exprId().id() for leaf in leaves]
    levels = []
    if _kind(plan) == "WithCTE":
        plan = plan.plan()
    while _kind(plan) in ("Project", "Filter") and not _gives(plan, ids, stand_in):
        levels.append(plan)
        plan = plan.child()
    if not _gives(plan, ids, stand_in):
        message = "`on_error: reject` is for a step that computes columns and drops rows"
        hint = f"Here is {_kind(plan)} too: write the part that may fail as a step of its own."
        raise OptionError(message, option=at, hint=hint)
    steps = _Steps(given, at)
    steps.begin(leaves)
    for level in reversed(levels):
        if _kind(level) == "Project":
            steps.project(_list(level.projectList()))
        else:
            steps.keep(level.condition())
    return steps.frame


class _Steps:
    """Builds a frame, one level of the user's plan after the other."""

    def __init__(self, given: DataFrame, at: str) -> None:
        self.frame = given
        self._at = at
        self._made = 0
        self._came = [name for name in given.columns if name.startswith("_")]
        #: The ids of the columns that may be null for an expression that failed.
        self._computed: set[int] = set()
        sql = _jvm(given).org.apache.spark.sql
        self._expressions = sql.catalyst.expressions
        self._utils = sql.classic.ExpressionUtils

    def begin(self, leaves: list[Any]) -> None:
        """Let the input's columns be known by the ids of the stand-in's."""
        from pyspark.sql import functions as F  # noqa: N812

        plain = [name for name in self.frame.columns if not name.startswith("_")]
        columns = [self._like(F.col(quoted(leaf.name())), leaf) for leaf in leaves]
        payload = F.expr(row_as_json(plain)).alias(PAYLOAD)
        came = [F.col(name).alias(CAME + name) for name in self._came]
        reason = F.lit(None).cast("string").alias(REASON)
        self.frame = self.frame.select(*columns, payload, *came, reason)

    def project(self, listed: list[Any]) -> None:
        """Compute a level's columns."""
        columns: list[SparkColumn] = []
        reasons: list[SparkColumn] = []
        for each in listed:
            if _kind(each) != "Alias":
                columns.append(self._column(each))
                continue
            plain = _kind(each.child()).endswith(("Literal", "Reference"))
            if not plain or self._may_have_failed(each):
                self._computed.add(each.exprId().id())
            if plain:
                columns.append(self._column(each))
                continue
            value, failed = self._tried(each.child(), f"column {each.name()}")
            renewed = each.withNewChildren(_sequence(self.frame, [self._expression(value)]))
            columns.append(self._column(renewed))
            reasons.append(failed)
        self._tell(columns, reasons)

    def keep(self, condition: Any) -> None:
        """Drop the rows that do not meet a condition; one for which it fails stays, with the reason.

        A row that was refused before stays too, unless the condition asks for nothing that may have
        failed: Spark would not have computed what it drops.
        """
        from pyspark.sql import functions as F  # noqa: N812

        certain = not self._may_have_failed(condition)
        holds, failed = self._tried(condition, "the condition")
        own = [
            self._column(each)
            for each in _output(self.frame)
            if not each.name().startswith((_ATTEMPT, CAME)) and each.name() not in (REASON, PAYLOAD)
        ]
        self._tell([*own, holds.alias(_ATTEMPT), failed.alias(_FAILED)], [failed])
        refused = F.col(_FAILED if certain else REASON).isNotNull()
        kept = F.coalesce(F.col(_ATTEMPT), F.lit(False)) | refused
        self.frame = self.frame.where(kept).drop(_ATTEMPT, _FAILED)

    def _may_have_failed(self, expression: Any) -> bool:
        """Whether an expression rests on columns that are null where another one failed."""
        asked = _list(expression.references().toSeq())
        return any(each.exprId().id() in self._computed for each in asked)

    def _tell(self, columns: list[SparkColumn], reasons: list[SparkColumn]) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        told = F.coalesce(F.col(REASON), *reasons).alias(REASON)
        came = [CAME + name for name in self._came]
        self.frame = self.frame.select(*columns, PAYLOAD, *came, told)

    def _tried(self, expression: Any, what: str) -> tuple[SparkColumn, SparkColumn]:
        """Return an expression's value, null where it fails, and the reason where it does."""
        from pyspark.sql import functions as F  # noqa: N812

        reasons: list[SparkColumn] = []
        expression = self._without_functions(expression, what, reasons)
        place = self._kept(attempt(self.frame, self._column(expression)))
        failed = F.when(place.isNull(), F.lit(f"{what} fails: {_written(expression)}"))
        return place["v"], F.coalesce(*reasons, failed)

    def _without_functions(self, node: Any, what: str, reasons: list[SparkColumn]) -> Any:
        """Return an expression with the results of its Python functions in place of their calls."""
        from pyspark.sql import functions as F  # noqa: N812

        children = _list(node.children())
        renewed = [self._without_functions(child, what, reasons) for child in children]
        if any(old is not new for old, new in zip(children, renewed, strict=True)):
            node = node.withNewChildren(_sequence(self.frame, renewed))
        if _kind(node) != "PythonUDF":
            return node
        arguments = []
        for argument in _list(node.children()):
            tried = self._kept(attempt(self.frame, self._column(argument)))
            failed = F.lit(f"{what} fails: {_written(argument)}")
            reasons.append(F.when(tried.isNull(), failed))
            arguments.append(tried["v"])
        called = self._kept(self._guarded(node)(*arguments))
        reasons.append(F.concat(F.lit(f"{what} fails: {node.name()} raised "), called["e"]))
        return self._expression(called["v"])

    def _guarded(self, node: Any) -> Callable[..., SparkColumn]:
        """Return a user's function that gives a struct: what it returns as `v`, or raises as `e`."""
        from pyspark import cloudpickle
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StringType, StructType

        jvm = _jvm(self.frame)
        if node.evalType() not in _BY_ROW:
            message = f"`on_error: reject` can't tell which row of many {node.name()} fails for"
            hint = "Make it a function of single values, or let it give null for them."
            raise OptionError(message, option=self._at, hint=hint)
        code = bytes(node.func().command().toArray(jvm.scala.reflect.ClassTag.Byte()))
        function, returned = cloudpickle.loads(code)  # the user's own, of this process

        def guarded(*values: Any) -> tuple[Any, str | None]:
            try:
                return function(*values), None
            except Exception as error:
                return None, f"{type(error).__name__}: {error}"

        made = StructType().add("v", returned).add("e", StringType())
        wrapped: Any = F.udf(guarded, made, useArrow=_BY_ROW[node.evalType()])
        found: Callable[..., SparkColumn]
        found = wrapped if node.udfDeterministic() else wrapped.asNondeterministic()
        return found

    def _kept(self, value: SparkColumn) -> SparkColumn:
        """Add a column to the frame, and return it."""
        from pyspark.sql import functions as F  # noqa: N812

        self._made += 1
        name = f"{_ATTEMPT}{self._made}"
        self.frame = self.frame.select("*", value.alias(name))
        return F.col(name)

    def _column(self, expression: Any) -> SparkColumn:
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._utils.column(expression))

    def _expression(self, column: Any) -> Any:
        return self._utils.expression(column._jc)

    def _like(self, column: SparkColumn, attribute: Any) -> SparkColumn:
        """Return a column with the name and the id of an attribute."""
        jvm = _jvm(self.frame)
        nothing = _sequence(self.frame, [])
        made = self._expressions.Alias(
            self._expression(column),
            attribute.name(),
            attribute.exprId(),
            nothing,
            jvm.scala.Option.empty(),
            nothing,
        )
        return self._column(made)


def _gives(plan: Any, ids: list[int], stand_in: DataFrame) -> bool:
    """Whether a node of a plan is the stand-in, or a reference to it."""
    java: Any = stand_in._jdf
    if _kind(plan) == "CTERelationRef":
        return [each.exprId().id() for each in _list(plan.output())] == ids
    return bool(plan.fastEquals(java.queryExecution().analyzed()))


def _output(frame: DataFrame) -> list[Any]:
    java: Any = frame._jdf
    return _list(java.queryExecution().analyzed().output())


def _written(expression: Any) -> str:
    """Return an expression as SQL, without the names that are ours."""
    text: str = expression.sql()
    return "what is done with its result" if _ATTEMPT in text else text


def _kind(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


def _jvm(frame: DataFrame) -> Any:
    return frame.sparkSession._jvm


def _sequence(frame: DataFrame, values: list[Any]) -> Any:
    return _jvm(frame).PythonUtils.toSeq(values)


def _list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
