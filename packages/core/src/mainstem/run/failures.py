"""Says in a few lines why a query failed, and in which node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mainstem.contracts.abilities import Advising, Expressions
from mainstem.errors import MachineError, MainstemError, PipelineError
from mainstem.plan.model import Node, Plan
from mainstem.run.telling import Told

#: Begins the message of an error that our own plans raise on a refused row; the parts after it are
#: separated by a unit separator: node, reason, `_id` in hex, content.
REJECTION = "mainstem-rejected:"
#: Begins what a source says in a process of Spark's, before its node and its text: where Spark's own
#: errors have their class.
SAID = "[SOURCE]"
_SAID = re.compile(re.escape(SAID) + r" (\w+): ([^\n]+)")
_REJECTED = re.compile(
    re.escape(REJECTION) + r"([^\x1f]*)\x1f([^\x1f]*)\x1f([0-9A-F]*)\x1f?([^\x1f]*)"
)


def first_line(error: BaseException) -> str:
    """Return an error's message without Java's stack, plans and SQL states."""
    text = str(getattr(error, "desc", None) or error)
    text = re.split(r"\n\s*(?:at |== |Caused by|JVM stacktrace|=== Streaming|[~+!'])", text)[0]
    text = re.sub(r"\s*SQLSTATE: \w+", "", text).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _for_users(" ".join(lines[:3]).rstrip(";")) or type(error).__name__


def blame(error: Any, plan: Plan, among: Iterable[str]) -> tuple[str | None, str]:
    """Return the node, and the key in the document, whose expression an error is about.

    Spark tells the fragment of SQL that failed; the node is the one whose options hold it.
    """
    fragments = [*_fragments(error), *re.findall(r"== SQL .*?==\n(.*)\n", str(error))]
    for name in among:
        component = plan.nodes[name].component
        at = ".".join(plan.nodes[name].path)
        if not isinstance(component, Expressions):
            continue
        written = component.expressions()
        for key, text in written.items():
            if any(f and (f in text or text in f) for f in fragments):
                return name, f"{at}.with.{key}"
        if len(list(among)) == 1:
            return name, at
    return None, ""


def _fragments(error: Any) -> list[str]:
    try:
        return [context.fragment() for context in error.getQueryContext()]
    except Exception:  # no error of Spark's, or one without a context
        return []


def lost_worker(error: BaseException) -> str:
    """Return why Spark lost a Python process of its own, if that is why it gave up on a query.

    It waits ten seconds for one to start, and can't be told to wait longer; a busy machine takes that. On
    one machine it does not try a task again whose process was killed.
    """
    text = str(error)
    if "Python worker failed to connect back" in text:
        return "Spark's Python process took too long to start"
    if "Python worker exited unexpectedly" in text:
        return "Spark's Python process was killed, or crashed"
    return ""


_NO_CORE = re.compile(
    r"Error from python worker.*No module named '?(mainstem|lazy_loader)\b", re.DOTALL
)


def without_core(error: BaseException) -> MachineError | None:
    """Return what to tell if Python on one of a cluster's machines has no core of ours."""
    if not _NO_CORE.search(str(error)):
        return None
    return MachineError(
        "Python on a machine of the cluster can't start Spark's workers: it has no package `mainstem`. "
        "Install it there, or write `spark.python.daemon.module: pyspark.daemon` under `spark.conf`."
    )


def of_an_expression(error: BaseException, plan: Plan, nodes: Iterable[Node]) -> bool:
    """Whether a query failed for an expression, or a Python function, of one of some nodes."""
    named = [node.name for node in nodes]
    if not named or REJECTION in str(error):
        return False
    return blame(error, plan, named)[0] is not None or _IN_PYTHON in str(error)


def with_row(
    found: Told, plan: Plan, failed: MainstemError | None, *, show_rows: bool = False
) -> MainstemError:
    """Return the error for a row that an expression failed for.

    Args:
        found: the row.
        failed: what the same batch failed with before it was run again to find the row out; None for
            a later batch.
    """
    node, reason, place, content = found
    if failed is not None:
        why = re.sub(r"^query \S+:", f"{node}:", str(failed))
    else:
        why = f"{node}: {reason if show_rows else without_values(reason)}"
    lines = [
        why,
        *([f"row: {place}"] if place else []),
        *([f"content: {content[:500]}"] if content else []),
        f"`on_error: reject` of {node} sends such rows to {node}.rejected.",
    ]
    return PipelineError(plan.scrubber.clean("\n  ".join(lines)), node=node)


def explain(
    error: BaseException, plan: Plan, query: str, *, show_rows: bool = False
) -> MainstemError:
    """Return the error that a user is shown for a failed query.

    Spark's messages quote the values they are about; those are left out unless `show_rows`.
    """
    if isinstance(error, MainstemError):
        plan.scrubber.clean_error(error)
        return error
    if absent := without_core(error):
        return absent
    text = str(error)
    refused = _REJECTED.search(text)
    if refused:
        node, reason, row, content = refused.groups()
        if not show_rows:
            reason = of_a_refusal(reason, plan)
        message = f"{node}: refused a row, and nobody reads {node}.rejected: {reason}"
        if row:
            message += f"\n  row: _id {row.lower()}"
        content = re.sub(r"\s*SQLSTATE: \w+$", "", content.splitlines()[0]) if content else ""
        if content:
            message += f"\n  content: {content[:500]}"
        message += f"\n  Read {node}.rejected, or write `on_rejected: drop` for {node}."
        return PipelineError(plan.scrubber.clean(message), node=node, row=row or None)
    if (said := _SAID.findall(text)) and said[-1][0] in plan.nodes:
        node, message = said[-1]
        advice = _advice(text, plan, [node])
        whole = "\n  ".join(filter(None, (f"{node}: {message}", advice)))
        return PipelineError(plan.scrubber.clean(whole), node=node)
    found = plan.query(query)
    candidates = [*found.streaming, *found.per_batch]
    name, key = blame(error, plan, candidates)
    where = f"{name} ({key})" if name else f"query {query}"
    cause = _for_users(_cause(error))
    if not show_rows:
        cause = without_values(cause)
    message = f"{where}: {cause}"
    if advice := _advice(text, plan, [*candidates, *found.sinks]):
        message += f"\n  {advice}"
    return PipelineError(plan.scrubber.clean(message), node=name)


def _advice(text: str, plan: Plan, among: Iterable[str]) -> str:
    """Return what the first component that knows the failure says."""
    components = (plan.nodes[name].component for name in among)
    advisers = (component for component in components if isinstance(component, Advising))
    return next(filter(None, (adviser.advice(text) for adviser in advisers)), "")


#: What Spark's messages hold in quotes that is no row's content: settings and what they can be.
_ADVICE = re.compile(r"spark\.[\w.]+|true|false|[A-Z][A-Z_]+|[a-z_]+\(\)", re.ASCII)
#: A text in single quotes; an apostrophe stands after a letter, and begins none.
_QUOTED = re.compile(r"(?<![\w'])'((?:[^'\\]|\\.|''|'(?=\w))*)'(?!\w)", re.DOTALL)
#: What stands for a row's content without quotes: a number after `the value`, what was rounded, records
#: in brackets at the end.
_VALUE = re.compile(
    r"(?i:(?<=\bthe value ))[-+.\d]\S*"
    r"|(?<=\bThe )[-+\d]\S*(?= rounded)|(?<=rounded half up from )\S+"
    r"|(?<=: \[)[^\]]*(?=\]\.?$)|(?<=: \[).*$"
)


def without_values(message: str) -> str:
    """Return a message of Spark's without what it quotes of rows, and with what it advises."""
    hidden = _QUOTED.sub(lambda m: m[0] if _ADVICE.fullmatch(m[1]) else "'?'", message)
    return _VALUE.sub("?", hidden)


def of_a_refusal(reason: str, plan: Plan) -> str:
    """Return why a row was refused without what an external system, or a function, quotes of the row.

    Names of columns and nodes stay.
    """
    names = {c.name for n in plan.nodes.values() if n.shape for c in n.shape.columns} | {
        *plan.nodes
    }
    return _TEXT.sub(lambda m: m[0] if m[1] in names else '"?"', without_values(reason))


_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')

#: Names that are ours within a plan, in Spark's suggestions.
_OWN_NAMES = re.compile(r"`_\w*`(?:\.`\w+`)?,? ?")


def _for_users(message: str) -> str:
    """Return a message without plans, and without names that are ours."""
    text = re.split(r";?\s*\n\s*[~+!':]", message)[0]
    return re.sub(
        r"\s*Did you mean one of the following\? \[\s*\]\.?", "", _OWN_NAMES.sub("", text)
    )


def _cause(error: BaseException) -> str:
    """Return the most telling line of a query's failure: its root cause."""
    text = str(error)
    if raised := _RAISED.findall(text):
        return str(raised[-1])
    conditions = re.findall(r"\[([A-Z][A-Z0-9_.]+)\] ([^\n]+)", text)
    telling = [(c, m) for c, m in conditions if c not in _WRAPPERS]
    if telling:
        condition, message = telling[-1]
        return re.sub(r"\s*SQLSTATE: \w+", "", f"[{condition}] {message}").strip()
    causes = re.findall(r"Caused by: ([^\n]+)", text)
    return (causes[-1] if causes else first_line(error)).strip()


#: Stands in what Spark says when a Python function raised in a task, before Python's own words.
_IN_PYTHON = "thrown from the Python worker"
#: The last line of those: at their beginning, with no blanks before it.
_RAISED = re.compile(
    _IN_PYTHON
    + r"[^\n]*\n.*?\n((?!Traceback)[\w.]+(?:: [^\n]*)?)\s*(?=\n\s*(?:SQLSTATE|at |\n)|$)",
    re.DOTALL,
)
_WRAPPERS = {
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "JOB_ABORTED",
    "TASK_WRITE_FAILED",
}
