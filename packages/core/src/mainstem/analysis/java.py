"""Asks Spark's analyser in a Java process, by py4j."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mainstem.analysis.requests import Analyse, Answer, Fault, Request
from mainstem.errors import nearest

_DISTINCT = re.compile(r"\b\w+\(distinct ", re.IGNORECASE)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_CATALYST = "org.apache.spark.sql.catalyst.analysis"


class Analyser:
    """Spark's parser and analyser with the functions that come with Spark, over no catalog.

    Args:
        jvm: py4j's view of a Java process that has Spark's jars.
    """

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
        self._analyser = getattr(getattr(jvm, f"{_CATALYST}.SimpleAnalyzer$"), "MODULE$")
        self._functions: frozenset[str] | None = None

    def answer(self, request: Request) -> Answer:
        """Return what Spark says."""
        try:
            if request.whole:
                self._parser.parseQuery(request.text)
            else:
                self._parser.parseExpression(request.text)
        except Exception as error:
            return Answer(self._fault(_java(error), request, 0))
        try:
            plan = self._parser.parsePlan(request.prefix + request.text + request.suffix)
            done = self._analyser.execute(plan)
            self._analyser.checkAnalysis(done)
        except Exception as error:
            fault = self._fault(_java(error), request, len(request.prefix))
            unknown = fault.condition.startswith("TABLE_OR_VIEW_NOT_FOUND")
            return Answer(unknown=True) if unknown else Answer(fault)
        fields = list(done.schema().fields())
        steps = tuple(dict.fromkeys(self._steps(done)))
        return Answer(
            columns=tuple((f.name(), f.dataType().sql()) for f in fields),
            steps=steps,
            distinct="Aggregate" in steps and bool(_DISTINCT.search(done.toString())),
        )

    def _steps(self, node: Any) -> Iterator[str]:
        name: str = node.getClass().getSimpleName()
        yield name
        children = node.children()
        for index in range(children.size()):
            yield from self._steps(children.apply(index))
        if name == "WithCTE":
            return
        inner = node.innerChildren()
        for index in range(inner.size()):
            child = inner.apply(index)
            if hasattr(child, "children") and "logical" in child.getClass().getName():
                yield from self._steps(child)

    def _fault(self, java: Any, request: Request, before: int) -> Fault:
        names = {method.getName() for method in java.getClass().getMethods()}
        condition = java.getCondition() if "getCondition" in names else None
        parameters = {}
        if "getMessageParameters" in names and java.getMessageParameters() is not None:
            parameters = {str(k): str(v) for k, v in dict(java.getMessageParameters()).items()}
        start = None
        for context in (java.getQueryContext() or []) if "getQueryContext" in names else []:
            start = context.startIndex() - before
        if start is None and "startPosition" in names:
            start = _offset(request.text, java.line(), java.startPosition()) if not before else None
        message = str(java.getMessage() or java.getClass().getSimpleName())
        function = self._unknown(request.text) if "loadFunction" in message else ""
        if function and start is None and not (found := request.text.find(function)) < 0:
            start = found
        return Fault(
            str(condition or ""),
            message,
            start if start is not None and 0 <= start <= len(request.text) else None,
            parameters,
            function,
            nearest(function.lower(), self._functions or ()) if function else "",
        )

    def _unknown(self, text: str) -> str:
        """Return the first function of a text that Spark has not; empty if it has all."""
        if self._functions is None:
            registry = getattr(self._jvm, f"{_CATALYST}.FunctionRegistry$")
            listed = getattr(registry, "MODULE$").builtin().listFunction()
            self._functions = frozenset(
                listed.apply(n).funcName().lower() for n in range(listed.size())
            )
        called = _CALLED.findall(re.sub(r"'[^']*'", "''", text))
        known = self._functions | _NO_FUNCTIONS
        return next((name for name in called if name.lower() not in known), "")


def _java(error: Exception) -> Any:
    """Return the Java exception behind an error of py4j, or behind what a session makes of one."""
    found = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if found is None:
        raise error
    return found


def in_session(spark: Any) -> Analyse:
    """Return what asks the analyser in the Java process of a Spark session."""
    made: list[Analyser] = []

    def analyse(requests: Sequence[Request]) -> list[Answer]:
        if not made:
            made.append(Analyser(spark._jvm))
        return [made[0].answer(each) for each in requests]

    return analyse


#: What stands before a bracket and is no function, or none of the registry's.
_NO_FUNCTIONS = frozenset(
    """
    in and or not when then else case cast try_cast exists over as on using values select from where by
    having any some all between like rlike ilike interval is with within filter struct array map decimal
    varchar char union except intersect distinct
    """.split()  # noqa: SIM905
)


def _offset(text: str, line: Any, position: Any) -> int | None:
    """Return the offset of a place that is told by line, from 1, and column, from 0."""
    try:
        number, column = int(str(_value(line))), int(str(_value(position)))
    except (TypeError, ValueError):
        return None
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: number - 1])) + column


def _value(option: Any) -> Any:
    return option.get() if hasattr(option, "get") and hasattr(option, "isDefined") else option
