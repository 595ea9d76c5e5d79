"""What OpenSearch holds: all documents of the indices that a sink writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any

import msgspec
import pyarrow as pa
from mainstem import TransientError

from mainstem_search_opensearch.bulk import Line
from mainstem_search_opensearch.connection import Connection
from mainstem_search_opensearch.options import OpenSearchOptions

#: So many documents are asked for at a time, and the search kept for so long between.
_MANY, _KEPT = 1_000, "5m"
_TEXT = msgspec.json.Encoder(decimal_format="number")
_SCHEMA = pa.schema([(name, pa.string()) for name in ("index", "id", "routing", "content")])


def documents(
    connection: Connection,
    options: OpenSearchOptions,
    is_ours: Callable[[str, str, Mapping[str, Any]], bool],
    take: Callable[[pa.RecordBatch], None],
) -> None:
    """Give all documents, as they are now.

    Args:
        is_ours: whether one of an index, id and fields can be of the sink.
    """
    where = pattern(options.index)
    connection.ask("POST", f"/{where}/_refresh", missing={})
    query = {"size": _MANY, "sort": ["_doc"], "query": {"match_all": {}}}
    found = connection.ask(
        "POST", f"/{where}/_search", query, missing={}, scroll=_KEPT,
        allow_partial_search_results="false",
    )  # fmt: skip
    try:
        while hits := _whole(found):
            rows = [
                {
                    # An alias is known by its own name.
                    "index": options.index if options.fixed else hit["_index"],
                    "id": hit["_id"],
                    "routing": hit.get("_routing"),
                    "content": _TEXT.encode(hit["_source"]).decode(),
                }
                for hit in hits
                if is_ours(hit["_index"], hit["_id"], hit["_source"])
            ]
            take(pa.RecordBatch.from_pylist(rows, _SCHEMA))
            asked = {"scroll": _KEPT, "scroll_id": found["_scroll_id"]}
            found = connection.ask("POST", "/_search/scroll", asked)
    finally:
        if "_scroll_id" in found:
            connection.ask("DELETE", "/_search/scroll", {"scroll_id": found["_scroll_id"]})


def _whole(found: Any) -> list[Any]:
    """Return the documents of an answer.

    Raises:
        TransientError: some shards did not answer.
    """
    if found.get("timed_out") or found.get("_shards", {}).get("failed"):
        raise TransientError("some shards do not answer, so that it is not known what they hold")
    hits: list[Any] = found.get("hits", {}).get("hits", [])
    return hits


def made_of(template: str, fields: Mapping[str, Any], *, escaped: bool = False) -> str | None:
    """Return the name that a template makes of a document's fields; None where it lacks one."""
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            value = fields.get(name)
            if value is None:
                return None
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            parts.append(escape(shown) if escaped else shown)
    return "".join(parts)


def escape(text: str) -> str:
    """Return a column's text as it is in an id of several."""
    return text.replace("\\", "\\\\").replace(":", "\\:")


def pattern(template: str) -> str:
    """Return the indices of a template, as OpenSearch has it."""
    parts = (
        text + ("" if name is None else "*") for text, name, _, _ in Formatter().parse(template)
    )
    return "".join(parts)


def deletions(rows: Iterable[Any]) -> list[Line]:
    """Return what removes documents, given as `documents` gives them."""
    found = []
    for row in rows:
        place = {"_index": row["index"], "_id": row["id"]}
        if row["routing"] is not None:
            place["routing"] = row["routing"]
        found.append(Line(json.dumps({"delete": place}), None, None))
    return found
