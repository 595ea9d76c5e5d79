"""What `pipeline.json` of a checkpoint holds of a plan, and what of that a plan may not change."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from mainstem.document.scrubber import Scrubber
from mainstem.durable import read_whole
from mainstem.errors import PipelineError
from mainstem.plan.model import Node, Plan

FORMAT = 1

#: Stands behind a text that is not written as it is, for it has a secret in it.
_DIGEST = re.compile(r" \(SHA-256 ([0-9a-f]{64})\)$")


def read_description(file: Path) -> dict[str, Any]:
    """Return what a `pipeline.json` holds.

    Raises:
        PipelineError: it can't be read, or is of another format version.
    """
    try:
        found = json.loads(read_whole(file))
        if not isinstance(found, dict):
            raise ValueError("it holds no mapping")
    except (OSError, ValueError) as error:
        raise PipelineError(f"{file} can't be read: {error}") from None
    if found.get("format") != FORMAT:
        raise PipelineError(
            f"{file} has format {found.get('format')}, and this version reads {FORMAT}; "
            "run it with the version of mainstem that wrote it, or remove the checkpoint"
        )
    return found


def describe(plan: Plan) -> dict[str, Any]:
    """Return what `pipeline.json` holds for a plan."""
    return {
        "format": FORMAT,
        "pipeline": plan.pipeline,
        "origin": plan.origin,
        "queries": {
            query.name: {
                "anchor": query.anchor,
                "sources": dict(query.reads),
                "sinks": dict.fromkeys(query.sinks, 0),
                "state": {
                    name: {
                        "operator": f"{node.distribution}:{node.word}",
                        "version": node.state.version,
                        "shaped_by": _without_secrets(
                            json.loads(json.dumps(node.state.shaped_by, default=str)), plan.scrubber
                        ),
                        "gains": sorted(node.state.gains),
                        "types": _types(node),
                    }
                    for name in query.streaming
                    if (node := plan.nodes[name]).state
                },
            }
            for query in plan.queries
        },
    }


def _types(node: Node) -> dict[str, str]:
    """Return the types of what a node gives, as far as they are known: its state has values of them."""
    columns = node.shape.columns if node.shape else ()
    return {column.name: column.type for column in columns if column.type}


def _has_all(now: Any, before: Any) -> bool:
    """Whether a list or a mapping has all that another one has."""
    if isinstance(now, list) and isinstance(before, list):
        return all(each in now for each in before)
    both = isinstance(now, dict) and isinstance(before, dict)
    return both and before.items() <= now.items()


def changes(before: dict[str, Any], now: dict[str, Any], read: set[str]) -> list[str]:
    """Return what a query of a plan has that a checkpoint can't serve.

    Args:
        before: the query, as `pipeline.json` has it.
        now: the same of the plan.
        read: the sources that it has read.
    """
    found = []
    if before["anchor"] != now["anchor"]:
        found.append(f"it was anchored at {before['anchor']!r}, and now is at {now['anchor']!r}")
    for name, times in before["sources"].items():
        if now["sources"].get(name, 0) < times and name in read:
            found.append(f"it reads the source {name!r}, which is gone or read less often")
    for name, state in before["state"].items():
        new = now["state"].get(name)
        if new is None:
            found.append(f"it has the state of {name!r}, which is gone")
            continue
        for key in ("operator", "version"):
            if new[key] != state[key]:
                found.append(f"{name!r} had {key} {state[key]}, and now has {new[key]}")
        for key in sorted(state["shaped_by"].keys() | new["shaped_by"].keys()):
            old_value, new_value = state["shaped_by"].get(key), new["shaped_by"].get(key)
            known, wanted = _comparable(old_value), _comparable(new_value)
            if known != wanted and not (key in new["gains"] and _has_all(wanted, known)):
                found.append(f"{name!r} had {key} {old_value!r}, and now has {new_value!r}")
        for column, old_type in state.get("types", {}).items():
            new_type = new["types"].get(column, old_type)
            if new_type != old_type:
                types = f"{old_type.upper()}, and is now {new_type.upper()}"
                found.append(f"{name!r} keeps the column {column}, which was {types}")
    found += [
        f"{name!r} is new and has no state in it" for name in now["state"].keys() - before["state"]
    ]
    return found


def _without_secrets(value: Any, scrubber: Scrubber) -> Any:
    """Return a value as JSON has it; a text with a secret in it is cleaned, its digest behind it."""
    if isinstance(value, str):
        cleaned = scrubber.clean(value)
        return value if cleaned == value else f"{cleaned} (SHA-256 {_digest(value)})"
    if isinstance(value, dict):
        return {
            _without_secrets(key, scrubber): _without_secrets(item, scrubber)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item, scrubber) for item in value]
    return value


def _comparable(value: Any) -> Any:
    """Return a value with digests for its texts: what is secret now may have been written as it was."""
    if isinstance(value, str):
        found = _DIGEST.search(value)
        return found[1] if found else _digest(value)
    if isinstance(value, dict):
        return {_comparable(key): _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
