"""A test that takes too long is the only one that fails."""

from __future__ import annotations

import pytest

TESTS = """
import pytest

@pytest.mark.timeout(2, func_only=True)
def test_too_long(spark):
    spark._jvm.java.lang.Thread.sleep(4000)

def test_next(spark):
    assert [row.id for row in spark.range(3).collect()] == [0, 1, 2]
"""


@pytest.mark.in_turn
def test_a_call_into_spark_that_took_too_long_is_not_answered_to_the_next(spark, pytester):
    """Pass: the limit breaks off a call, and the tests after it get answers to their own."""
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*Timeout*2.0*"])
