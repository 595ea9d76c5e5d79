"""Writing by a data source of Spark's with the older interface: here `jdbc`, into the Derby that Spark ships."""

from __future__ import annotations

import uuid

import pytest
from mainstem.sinks import write_by_relation
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

DRIVER = "org.apache.derby.jdbc.EmbeddedDriver"


@pytest.fixture
def url(spark):
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", "/dev/null")
    return f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"


@pytest.mark.in_turn
def test_rows_are_appended_and_what_is_observed_of_them_is_complete(spark, url):
    """Pass: two batches are there, and of each the observation tells the rows without waiting for more."""
    options = {"url": url, "DBTable": "numbers", "driver": DRIVER}
    for count in (3, 4):
        seen = Observation()
        rows = spark.range(count).observe(seen, F.count(F.lit(1)).alias("rows"))
        write_by_relation(rows.where("id >= 0"), "jdbc", options)
        assert seen._jo.future().isCompleted()
        assert seen.get == {"rows": count}
    found = spark.read.format("jdbc").options(**options).load()
    assert sorted(row[0] for row in found.collect()) == [0, 0, 1, 1, 2, 2, 3]


@pytest.mark.in_turn
def test_what_ends_a_task_comes_up_as_by_sparks_own_writer(spark, url):
    """Pass: an error of a row's is raised with its text."""
    rows = spark.range(3).selectExpr("IF(id = 2, raise_error('two is too many'), id) AS id")
    with pytest.raises(PySparkException, match="two is too many"):
        write_by_relation(rows, "jdbc", {"url": url, "dbtable": "numbers", "driver": DRIVER})


@pytest.mark.in_turn
def test_no_option_stands_in_a_plan(spark, url):
    """Pass: none of Spark's records of executions has the password; that of `save` would, but for redaction."""
    password = uuid.uuid4().hex
    options = {
        "url": url,
        "dbtable": "numbers",
        "driver": DRIVER,
        "user": "somebody",
        "password": password,
    }
    write_by_relation(spark.range(3), "jdbc", options)
    store = spark._jsparkSession.sharedState().statusStore()
    told = [
        store.executionsList().apply(n).physicalPlanDescription()
        for n in range(store.executionsList().size())
    ]
    assert not any(password in text for text in told)
