"""What OpenSearch holds: all documents of the indices that a sink writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from mainstem import TransientError
from mainstem.columns import Template

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
    where = Template(options.index).pattern()
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
                    "index": options.fixed or hit["_index"],
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


def text_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a document that are there, as they are in names."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
        if value is not None
    }


def escape(text: str) -> str:
    """Return a column's text as it is in an id of several."""
    return text.replace("\\", "\\\\").replace(":", "\\:")


def deletions(rows: Iterable[Any]) -> list[Line]:
    """Return what removes documents, given as `documents` gives them."""
    found = []
    for row in rows:
        place = {"_index": row["index"], "_id": row["id"]}
        if row["routing"] is not None:
            place["routing"] = row["routing"]
        found.append(Line(json.dumps({"delete": place}), None, None))
    return found
