"""What the sink `kafka` is told in secret stands in no plan, and so in neither Spark's UI nor event log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kafka_topics import JARS

MARKERS = ("MARKER-OF-THE-KEY", "MARKER-OF-A-CERTIFICATE")

#: Writes a streaming batch, as a run does, in a process whose Spark keeps an event log.
SCRIPT = """
import glob, sys
from pyspark.sql import SparkSession
from ksink_writing import DDL, Place, told

url, jars, folder, key, certificate = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", ",".join(glob.glob(jars + "/*.jar")))
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "600m")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", "file://" + folder + "/log")
    .config("spark.eventLog.compress", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)

class Server:
    pass

Server.url = url
place = Place(Server, spark)
settings = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key}
sink = place.sink(kafka={**settings, "ssl.truststore.certificates": certificate})
lines = spark.readStream.text(folder + "/in").selectExpr(
    "CAST(NULL AS BINARY) AS key", "CAST(value AS BINARY) AS value", "unhex(md5(value)) AS _id"
)

def write(frame, number):
    made = place.batch(number)
    print("refused", told(sink.write(frame, made)))

lines.writeStream.trigger(availableNow=True).option(
    "checkpointLocation", folder + "/checkpoint"
).foreachBatch(write).start().awaitTermination()
print("written", place.values())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_secret_stands_in_sparks_event_log(kafka, tmp_path):
    """Pass: by `microbatch`, two settings of Kafka's with texts that nothing gives away as secrets are
    given; the event log tells of the plan that wrote, and has neither text; the row is there."""
    for name in ("log", "in"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kafka.url, JARS, str(tmp_path), *MARKERS],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=Path(__file__).parent,
    )
    assert "written [b'one']" in done.stdout, done.stdout + done.stderr
    logs = [path.read_text() for path in (tmp_path / "log").rglob("*") if path.is_file()]
    told = "".join(logs) + done.stdout + done.stderr
    assert "SaveIntoDataSourceCommand" in told
    for marker in MARKERS:
        assert marker not in told
