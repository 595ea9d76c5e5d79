"""Documents over files with a watermark, for tests that run them."""

from __future__ import annotations

import json
import os
from typing import Any

SCHEMA = "k STRING, at TIMESTAMP, v INT"


class Case:
    """A document over JSON lines with a watermark of ten minutes, whose files are a batch each."""

    def __init__(self, pipeline: Any, operators: dict[str, Any], *outputs: str) -> None:
        self.pipeline = pipeline
        self.operators = operators
        self.outputs = outputs
        self.fed = 1_700_000_000

    def feed(self, *rows: tuple[Any, ...]) -> None:
        """Feed a file of rows: key, time of the day, value."""
        self.fed += 1
        name = f"{self.fed}.json"
        lines = [{"k": k, "at": f"2026-01-01T{at}:00Z", "v": v} for k, at, v in rows]
        self.pipeline.feed(name, [json.dumps(line) for line in lines])
        os.utime(self.pipeline.folder / "in" / name, (self.fed, self.fed))

    def run(self, *, flush: bool = False, schema: str = SCHEMA) -> None:
        read = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
        time = {"column": "at", "delay": "10 minutes"}
        self.pipeline.document(
            trigger={"available_now": True, "flush": flush},
            sources={"rows": {"use": "files", "with": read, "watermark": time}},
            operators=self.operators,
            sinks={_sink(name): self.pipeline.sink(_sink(name), name) for name in self.outputs},
        ).run()

    def rows(self, output: str) -> list[dict[str, Any]]:
        return self.pipeline.rows(_sink(output))

    def found(self, output: str) -> list[tuple[Any, ...]]:
        """Return (key, hour and minute, value) of the rows that came out, in the order in files."""
        return [(row.get("k"), row["at"][11:16], row.get("v")) for row in self.rows(output)]


def _sink(output: str) -> str:
    return f"to_{output.replace('.', '_')}"


def step(use: str, **options: Any) -> dict[str, Any]:
    return {"node": {"use": use, "from": "rows", "with": options}}
