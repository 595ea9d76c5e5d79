"""What OpenSearch holds: all documents of the indices that a sink writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from string import Formatter
from typing import Any

import msgspec
import pyarrow as pa

from mainstem_search_opensearch.bulk import Line
from mainstem_search_opensearch.connection import Connection
from mainstem_search_opensearch.options import OpenSearchOptions

#: So many documents are asked for at a time, and the search kept for so long between.
_MANY, _KEPT = 1_000, "5m"
_TEXT = msgspec.json.Encoder(decimal_format="number")
_SCHEMA = pa.schema([(name, pa.string()) for name in ("index", "id", "routing", "content")])


def documents(
    connection: Connection, options: OpenSearchOptions, take: Callable[[pa.RecordBatch], None]
) -> None:
    """Give all documents, as they are now."""
    where = pattern(options.index)
    connection.ask("POST", f"/{where}/_refresh", missing={})
    query = {"size": _MANY, "sort": ["_doc"], "query": {"match_all": {}}}
    found = connection.ask("POST", f"/{where}/_search", query, missing={}, scroll=_KEPT)
    try:
        while hits := found.get("hits", {}).get("hits", []):
            rows = [
                {
                    # An alias is known by its own name.
                    "index": options.index if options.fixed else hit["_index"],
                    "id": hit["_id"],
                    "routing": hit.get("_routing"),
                    "content": _TEXT.encode(hit["_source"]).decode(),
                }
                for hit in hits
            ]
            take(pa.RecordBatch.from_pylist(rows, _SCHEMA))
            asked = {"scroll": _KEPT, "scroll_id": found["_scroll_id"]}
            found = connection.ask("POST", "/_search/scroll", asked)
    finally:
        if "_scroll_id" in found:
            connection.ask("DELETE", "/_search/scroll", {"scroll_id": found["_scroll_id"]})


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
