"""A plugin for tests.

`look` looks each row of a stream up in a table, which it loads first. It joins with the table as that is
in that moment, so what comes out tells what was loaded. `minutes` tells how far the watermark is,
and `pairs` is a join of Spark's own. The source `steps` gives a file in each batch, also of those that a
query has read before it was taken back.
"""

from datetime import timedelta

from mainstem import (
    Accepts,
    Events,
    LoadedFirst,
    LocalPath,
    Operator,
    Options,
    Planner,
    Reading,
    Rewindable,
    Source,
    SourceCapabilities,
    StateFacts,
    Stateful,
    hookimpl,
    option,
)


class LookOptions(Options):
    """None."""


class Look(Operator, Stateful, LoadedFirst):
    """Adds to each row's `t` what the table `k STRING, t STRING` holds for its `k`, or `-`."""

    options: LookOptions
    ports = {"stream": Accepts(), "table": Accepts()}

    def shape(self, inputs):
        return Events("n BIGINT, k STRING, t STRING", identity=["n"])

    def state(self, inputs):
        return StateFacts(version=1)

    def loaded_first(self):
        return frozenset({"table"})

    def apply(self, inputs, ctx):
        stream, table = inputs["stream"], inputs["table"]
        known = "t" if "t" in stream.columns else "''"
        both = stream.selectExpr("n", "k", f"{known} AS t", "true AS asks").unionByName(
            table.selectExpr("CAST(NULL AS BIGINT) AS n", "k", "t", "false AS asks")
        )
        return both.groupBy("k").transformWithStateInPandas(
            processor(), "n BIGINT, k STRING, t STRING", "Append", "None"
        )


def processor():
    """Return what keeps the table: a class made here goes to workers by value."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Lookup(StatefulProcessor):
        def init(self, handle):
            self.row = handle.getValueState("row", "t STRING")

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
            whole = pd.concat(list(rows))
            for told in whole[~whole.asks].t:
                self.row.update((told,))
            asks = whole[whole.asks]
            held = self.row.get()[0] if self.row.exists() else "-"
            yield pd.DataFrame({"n": asks.n, "k": key[0], "t": asks.t + held})

        def close(self):
            pass

    return Lookup()


class Minutes(Operator, Stateful):
    """Counts rows by minute of `at`, once the watermark has passed it."""

    options: LookOptions

    def shape(self, inputs):
        return Events("minute STRING, n BIGINT", identity=["minute"])

    def state(self, inputs):
        return StateFacts(version=1, holds=timedelta(minutes=1))

    def apply(self, inputs, ctx):
        from pyspark.sql import functions as F  # noqa: N812

        totals = inputs.only.groupBy(F.window("at", "1 minute")).count()
        return totals.selectExpr("date_format(window.start, 'HH:mm') AS minute", "count AS n")


class Pairs(Operator, Stateful):
    """Spark's own join of `k` with `j`, within a minute."""

    options: LookOptions
    ports = {"left": Accepts(), "right": Accepts()}

    def shape(self, inputs):
        return Events([inputs["left"].column("k"), inputs["right"].column("j")])

    def state(self, inputs):
        return StateFacts(version=1, holds=timedelta(minutes=2))

    def apply(self, inputs, ctx):
        from pyspark.sql import functions as F  # noqa: N812

        minute = "INTERVAL 1 MINUTE"
        on = f"k = j AND seen >= at - {minute} AND seen <= at + {minute}"
        return inputs["left"].join(inputs["right"], F.expr(on)).select("k", "j")


class StepsOptions(Options):
    """Where the files are."""

    path: LocalPath = option(description="A folder of files, read in the order of their names.")


class Steps(Source, Rewindable):
    """Gives the times in the lines of one file in each batch."""

    options: StepsOptions
    capabilities = SourceCapabilities(replayable=True)

    def shape(self):
        return Events("at TIMESTAMP")

    def load(self, ctx):
        return ctx.read_planned(steps(self.options.path))

    def starting_at(self, point):
        return self

    def gone(self, since):
        return ""


def steps(path):
    """Return the reading: a class made here goes to Spark's processes by value."""
    from datetime import datetime

    import pyarrow as pa

    class Files(Planner):
        def prepare(self):
            self._end = len(list(path.iterdir()))

        def initial(self):
            return {"files": 0}

        def latest(self, start):
            return {"files": min(start["files"] + 1, self._end)}

        def parts(self, start, end):
            return range(start["files"], end["files"])

    class Steps(Reading):
        def schema(self):
            return "at TIMESTAMP"

        def planner(self):
            return Files()

        def read(self, part, schema):
            lines = sorted(path.iterdir())[part].read_text().splitlines()
            times = pa.array([datetime.fromisoformat(line) for line in lines])
            yield pa.RecordBatch.from_arrays([times.cast(schema.field(0).type)], schema=schema)

    return Steps()


@hookimpl
def mainstem_sources():
    return {"steps": Steps}


@hookimpl
def mainstem_operators():
    return {"look": Look, "minutes": Minutes, "pairs": Pairs}
