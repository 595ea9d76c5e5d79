"""Documents a second that find their queries, beside OpenSearch's percolator.

    python benchmarks/percolating.py [QUERIES] [DOCUMENTS]

Queries of two to four words of 20,000, some with a column, a range, or a word that must not be there;
documents of 60 words. The step of `percolate` in one process, and the node by requests of 100 documents:
both say for each document which queries it matches, and these are compared. Then a document in Spark, on
two cores, by batches of 5,000 documents; those before the queries are all there do not count.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
from job import Batches
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem_keyed_state import KEY, Step
from mainstem_keyed_state.changes import DELETED, SEQUENCE
from mainstem_operators_search.percolate_logic import QUERIES, TEXT, PercolateLogic
from mainstem_search_opensearch.testing import OpenSearch

WORDS = [f"word{number:x}" for number in range(20_000)]
ROWS = pl.Schema({"title": pl.String(), "body": pl.String(), "n": pl.Int64()})
KEPT = pl.Schema({"id": pl.Int64(), TEXT: pl.String(), SEQUENCE: pl.Int64(), DELETED: pl.Boolean()})
AT_ONCE, BATCHES, MOST = 100, 4, 20_000
DOCUMENT = """\
pipeline: percolating
checkpoint: {folder}/checkpoint
trigger: {{available_now: true}}
spark: {{master: "local[2]", conf: {{spark.ui.enabled: false}}}}
sources:
  article:
    use: files
    with:
      path: {folder}/in
      format: jsonlines
      max_files: 1
      schema: title STRING, body STRING, n BIGINT
  line:
    use: files
    with: {{path: {folder}/queries, format: jsonlines, schema: "id BIGINT, query STRING, at BIGINT"}}
operators:
  asked: {{use: changelog, from: line, with: {{key: [id], sequence: at}}}}
  found: {{use: percolate, from: {{input: article, queries: asked}}}}
sinks:
  out: {{use: files, from: found, with: {{path: {folder}/out, format: parquet}}}}
"""


def word(dice: random.Random) -> str:
    """Return a word; some come much more often than others."""
    return WORDS[int(len(WORDS) * dice.random() ** 3)]


def queries(dice: random.Random, count: int) -> list[tuple[str, Any]]:
    """Return queries, and the same as the node has them."""
    found: list[tuple[str, Any]] = []
    for _ in range(count):
        one, two, three = (word(dice) for _ in range(3))
        kind = dice.randrange(4)
        text = [f"title:{one} {two}", f"{one} {two}", f"{one} {two} n:>50", f"{one} {two} -{three}"]
        either = [
            {"multi_match": {"query": each, "fields": ["title", "body"]}} for each in (one, two)
        ]
        whole: dict[str, Any] = {"must": either}
        if kind == 0:
            whole["must"] = [{"match": {"title": one}}, either[1]]
        if kind == 2:
            whole["must"] = [*either, {"range": {"n": {"gt": 50}}}]
        if kind == 3:
            no = {"multi_match": {"query": three, "fields": ["title", "body"]}}
            whole["must_not"] = [no]
        found.append((text[kind], {"bool": whole}))
    return found


def in_spark(asked: list[tuple[str, Any]], rows: list[dict[str, Any]]) -> float:
    """Return how many documents a second find their queries in a pipeline, the same in each batch."""
    lines = {
        "in": [rows] * (BATCHES + 1),
        "queries": [[{"id": n, "query": text, "at": 1} for n, (text, _) in enumerate(asked)]],
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for place, files in lines.items():
            (folder / place).mkdir()
            for number, part in enumerate(files):
                text = "".join(json.dumps(line) + "\n" for line in part)
                (folder / place / f"{number}.jsonl").write_text(text)
        file = folder / "pipeline.yaml"
        file.write_text(DOCUMENT.format(folder=folder))
        reporter = Batches()
        run(make_plan(file), reporter=reporter)
        return len(rows) * BATCHES / sum(reporter.seconds[-BATCHES:])


def main() -> None:
    """Run both."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    amount = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000
    dice = random.Random(3)
    asked = queries(dice, count)
    rows = [
        {
            "title": " ".join(word(dice) for _ in range(8)),
            "body": " ".join(word(dice) for _ in range(52)),
            "n": dice.randrange(100),
        }
        for _ in range(amount)
    ]
    types = {"title": "string", "body": "string", "n": "bigint"}
    port = pl.Schema({**KEPT, "_commit_version": pl.Int64()})
    logic = PercolateLogic(
        ROWS, port, key="id", types=types, fields=["title", "body"], matches="matches"
    )
    keys = pl.Series(KEY, [str(number).encode() for number in range(count)], pl.Binary)
    table = pl.DataFrame(
        {"id": range(count), TEXT: [text for text, _ in asked], SEQUENCE: 1, DELETED: False},
        schema=KEPT,
    ).with_columns(keys)
    frame = pl.DataFrame(rows, schema=ROWS).with_columns(pl.lit(b"", pl.Binary).alias(KEY))
    state = {QUERIES: table}
    began = time.perf_counter()
    logic.step(Step({"input": frame[:1]}, state, None))
    print(f"{count:,} queries read in {time.perf_counter() - began:.1f} s")
    began = time.perf_counter()
    mine = logic.step(Step({"input": frame}, state, None)).outputs[""]["matches"].to_list()
    ours = amount / (time.perf_counter() - began)
    print(f"percolate: {ours:,.0f} documents/s in one process, {sum(map(len, mine)):,} matches")
    print(f"in Spark: {in_spark(asked, rows):,.0f} documents/s")
    if count > MOST:
        return  # the node is given its queries one by one
    with tempfile.TemporaryDirectory() as folder, OpenSearch(Path(folder)) as node:
        kinds = {"title": {"type": "text"}, "body": {"type": "text"}, "n": {"type": "long"}}
        kinds["query"] = {"type": "percolator"}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        node.ask("PUT", "/q", {"mappings": {"properties": kinds}, "settings": settings})
        for number, (_, query) in enumerate(asked):
            node.ask("PUT", f"/q/_doc/{number}", {"query": query})
        node.ask("POST", "/q/_forcemerge?max_num_segments=1")
        node.ask("POST", "/q/_refresh")
        theirs: list[list[int]] = [[] for _ in rows]
        part = rows[: min(amount, 2_000)]
        for warm in (True, False):
            began = time.perf_counter()
            for start in range(0, len(part), AT_ONCE):
                given = part[start : start + AT_ONCE]
                body = {
                    "size": 10_000,
                    "_source": False,
                    "query": {"percolate": {"field": "query", "documents": given}},
                }
                for hit in node.ask("POST", "/q/_search", body)["hits"]["hits"]:
                    if not warm:
                        slots = hit["fields"]["_percolator_document_slot"]
                        for slot in slots:
                            theirs[start + slot].append(int(hit["_id"]))
        rate = len(part) / (time.perf_counter() - began)
    same = all(mine[at] == sorted(theirs[at]) for at in range(len(part)))
    print(
        f"OpenSearch: {rate:,.0f} documents/s; the same: {json.dumps(same)}; ratio {ours / rate:.2f}"
    )


if __name__ == "__main__":
    main()
