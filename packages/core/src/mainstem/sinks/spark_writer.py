"""For sinks that write by a data source of Spark's with the older interface, `CreatableRelationProvider`.

`DataFrameWriter.save` runs such a source inside a command. Spark then never completes what was observed
of the rows, by the core's counts and by `DataFrame.observe`, and has all options of the source, passwords
among them, in the command's plan. So the source is called without the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_by_relation(frame: DataFrame, format: str, options: Mapping[str, str]) -> None:  # noqa: A002
    """Append a batch by a data source of Spark's, and complete what is observed of its rows.

    Args:
        frame: the batch.
        format: the source's name, such as `kafka`.
        options: the source's; whether their names are written large or small does not matter.
    """
    jvm: Any = frame.sparkSession._jvm
    session: Any = frame.sparkSession._jsparkSession
    spark = "org.apache.spark.sql"  # whole names: Java looks through all jars for each part of one
    sources = getattr(jvm, f"{spark}.execution.datasources.DataSource")
    source = sources.lookupDataSource(format, session.sessionState().conf()).newInstance()
    regardless = getattr(jvm, f"{spark}.catalyst.util.CaseInsensitiveMap$")
    given = getattr(regardless, "MODULE$").apply(jvm.PythonUtils.toScalaMap(dict(options)))
    append = getattr(jvm, f"{spark}.SaveMode").Append
    rows: Any = frame._jdf.toDF()  # of rows, whatever the frame was made of
    source.createRelation(session.sqlContext(), append, given, rows)
    session.observationManager().tryComplete(rows.queryExecution())
