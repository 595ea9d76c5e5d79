# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["apache-beam>=2.60"]
# ///
"""What Apache Beam's direct runner makes of windows: an oracle, in an environment of its own.

Reads one JSON object for each line of standard input: `window` (minutes; of sessions the gap), `sessions`,
`lateness` (minutes), `count` (of early panes; 0 for none), `increments`, and `events`, each
`["rows", [[key, minute, number], ...]]` or `["watermark", minute]`. Prints for each a JSON array of panes:
key, start and end (minutes), timing, index, the numbers in order.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, window


class Tell(beam.DoFn):
    """Appends panes to a file: functions are copied, and what they collect with them."""

    def __init__(self, file):
        self._file = file

    def process(
        self,
        element,
        bounds=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
    ):
        key, numbers = element
        timing = {0: "early", 1: "on_time", 2: "late"}[pane.timing]
        start, end = (float(each) / 60 for each in (bounds.start, bounds.end))
        with Path(self._file).open("a") as out:
            out.write(json.dumps([key, start, end, timing, pane.index, sorted(numbers)]) + "\n")
        return []


def panes(case, file):
    stream = TestStream()
    for what, told in case["events"]:
        if what == "rows":
            stream.add_elements(
                [
                    window.TimestampedValue((key, number), minute * 60)
                    for key, minute, number in told
                ]
            )
        else:
            stream.advance_watermark_to(told * 60)
    stream.advance_watermark_to_infinity()
    into = (
        window.Sessions(case["window"] * 60)
        if case["sessions"]
        else window.FixedWindows(case["window"] * 60)
    )
    early = trigger.AfterCount(case["count"]) if case["count"] else None
    how = trigger.AccumulationMode
    options = PipelineOptions()
    options.view_as(StandardOptions).streaming = True
    with TestPipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        (
            pipeline
            | stream
            | beam.WindowInto(
                into,
                trigger=trigger.AfterWatermark(early=early, late=trigger.AfterCount(1)),
                accumulation_mode=how.DISCARDING if case["increments"] else how.ACCUMULATING,
                allowed_lateness=case["lateness"] * 60,
            )
            | beam.GroupByKey()
            | beam.ParDo(Tell(file))
        )
    with Path(file).open() as found:
        return sorted(json.loads(line) for line in found)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    for line in sys.stdin:
        with tempfile.NamedTemporaryFile() as file:
            print(json.dumps(panes(json.loads(line), file.name)), flush=True)
