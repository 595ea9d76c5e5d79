"""Spark's answers in words for the user of a document."""

from __future__ import annotations

import re

from mainstem.analysis.requests import Answer, Fault, Tables
from mainstem.contracts.abilities import Statement
from mainstem.errors import nearest

#: Conditions that say nothing where the type of a column is not known.
_OF_TYPES = ("DATATYPE_MISMATCH", "INVALID_EXTRACT", "CAST_", "UNSUPPORTED_", "UNEXPECTED_")
AGGREGATE = "Use the operator `aggregate`, which keeps its state in the checkpoint."
_JOIN = "Use a join operator, such as `stream_table_join`, which keeps its state in the checkpoint."
_NEVER_WHOLE = "A stream has no end, so this would be done for each batch alone."

#: Nodes of Spark's logical plans: what the user calls each, and what to do instead.
STEPS = {
    "Aggregate": ("an aggregation (GROUP BY or an aggregate function)", AGGREGATE),
    "Expand": ("an aggregation over several groupings", AGGREGATE),
    "Distinct": ("DISTINCT (or a UNION without ALL)", "Use `aggregate` by these columns."),
    "Deduplicate": ("a removal of duplicates", "Use `aggregate` by these columns."),
    "DeduplicateWithinWatermark": ("a removal of duplicates", "Use `aggregate` by these columns."),
    "Window": ("a window function (OVER)", AGGREGATE),
    "Join": ("a join of streams", _JOIN),
    "LateralJoin": ("a join of streams", _JOIN),
    "AsOfJoin": ("a join of streams", _JOIN),
    "Intersect": ("INTERSECT", _JOIN),
    "Except": ("EXCEPT", _JOIN),
    "GlobalLimit": ("LIMIT", _NEVER_WHOLE),
    "LocalLimit": ("LIMIT", _NEVER_WHOLE),
    "Tail": ("a tail", _NEVER_WHOLE),
    "Offset": ("OFFSET", _NEVER_WHOLE),
    "Sort": ("a sort (ORDER BY)", _NEVER_WHOLE),
    "Sample": ("a random sample", "A batch that is retried would give other rows."),
    "EventTimeWatermark": ("a watermark", "Write `watermark:` at the node in the document."),
}
#: What a row by row expression can't be, by Spark's node for it.
_OF_ROWS = {
    "Aggregate": ("an aggregate function, which is over many rows", AGGREGATE),
    "Window": ("a window function, which is over many rows", AGGREGATE),
    "Generate": ("several rows for one", "Explode in the operator `sql`, and give `identity`."),
}
_OF_TOTALS = {
    "Window": ("a window function, which is no aggregate", "Write an aggregate: sum, max, max_by."),
    "Generate": ("several rows for one", "Explode in the operator `sql` before."),
}


def flaw(statement: Statement, answer: Answer, tables: Tables) -> tuple[str, str] | None:
    """Return what is wrong with a statement, and the next step; None if it is right.

    Args:
        tables: those it is over, as it was asked.
    """
    if answer.fault is not None:
        known = all(kind for columns in tables.values() for _, kind in columns)
        if not known and answer.fault.condition.startswith(_OF_TYPES):
            return None
        return _fault(answer.fault, tables)
    forbidden = {"rows": _OF_ROWS, "totals": _OF_TOTALS}.get(statement.form, {})
    for step, (words, hint) in forbidden.items():
        if step in answer.steps:
            return f"has {words}", hint
    if statement.form == "query" and not {"Join", "LocalRelation"} & {*answer.steps}:
        for step in answer.steps:  # over nothing but the streams
            if step in STEPS:
                words, hint = STEPS[step]
                return f"keeps no state, and has {words}", hint
    if statement.form == "totals" and answer.distinct and not statement.distinct:
        return (
            "has an aggregate over DISTINCT values, which Spark does not compute on streams",
            "count, sum and avg can be over DISTINCT values; for others collect_set(x) has each once.",
        )
    return None


def _fault(fault: Fault, tables: Tables) -> tuple[str, str] | None:
    columns = list(dict.fromkeys(name for table in tables.values() for name, _ in table))
    shown = [name for name in columns if not name.startswith("_")]
    if fault.condition.startswith("UNRESOLVED_COLUMN"):
        name = _plain_name(fault.parameters.get("objectName", ""))
        if name in columns:
            return None  # it is there: Spark could not tell for another reason
        hint = nearest(name, shown) or f"Columns: {', '.join(shown)}."
        return f"there is no column {name!r}", hint
    if fault.function:
        return f"there is no function {fault.function!r}", fault.hint
    return cleaned(fault.message), ""


def cleaned(message: str) -> str:
    """Return Spark's words without its condition, state, place, plan and inner names."""
    text = message.strip().split("\n\n")[0].split("\n== SQL")[0]
    text = re.split(r";?\s*line \d+,? pos \d+|;?\n[~+'!:]|\(line \d+, pos \d+\)", text)[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+", "", text)
    text = re.sub(r"\s*Did you mean one of the following\?.*", "", text)
    text = re.sub(r"`(\w+)`", r"\1", text)
    return " ".join(text.split()).rstrip(" ;:")


def _plain_name(quoted: str) -> str:
    return quoted.replace("`.`", ".").strip("`")
