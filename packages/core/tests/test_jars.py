"""Jars that a session is to have: paths, coordinates, and a session that is there already."""

from __future__ import annotations

import pytest
from mainstem.errors import MachineError
from mainstem.run import jars

# What Spark 4.3 prints when its resolver finds nothing.
SAID = """
:: problems summary ::
	:: UNRESOLVED DEPENDENCIES         ::
	:: org.example#no-such-jar;1.0: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.example#no-such-jar;1.0: not found, unresolved dependency: org.example#other_2.13;2.0: configuration not found]
"""


def test_a_path_that_is_not_there_is_found_before_spark_starts(tmp_path):
    """Pass: the missing one is named, not the one that is there; addresses are Spark's business."""
    there = tmp_path / "there.jar"
    there.touch()
    found = f"{there}, file://{there} ,https://example.org/far.jar"
    jars.check_files({"spark.jars": found})
    with pytest.raises(
        MachineError, match=r"not there: /no/such\.jar, file:/nor/this\.jar\. "
    ) as e:
        jars.check_files({"spark.jars": f"{found},/no/such.jar,file:/nor/this.jar"})
    assert "there.jar" not in str(e.value)


def test_what_the_resolver_did_not_find_is_told_with_the_next_step():
    """Pass: each coordinate once, with the reason; nothing is told when nothing is missing."""
    error = jars.unresolved([*SAID.splitlines(), *SAID.splitlines()])
    assert str(error).startswith(
        "jars can't be had: org.example:no-such-jar:1.0 (not found), "
        "org.example:other_2.13:2.0 (configuration not found). Let this machine reach"
    )
    assert error.exit_code == 4
    assert jars.unresolved(["java.lang.OutOfMemoryError"]) is None


@pytest.mark.parametrize(
    ("wanted", "lacks"),
    [
        ({"spark.jars": "/a/one-1.0.jar"}, ""),
        ({"spark.jars": "/a/two-1.0.jar"}, "/a/two-1.0.jar"),
        ({"spark.jars.packages": "org.example:one:9"}, ""),
        ({"spark.jars.packages": "org.example:three:1,org.example:four_2.13:3"}, ""),
        ({"spark.jars.packages": "org.example:four:1"}, "org.example:four:1"),
        ({"spark.jars": "/b/six.jar", "spark.jars.packages": "g:one:1"}, "/b/six.jar"),
    ],
)
def test_a_session_that_is_there_already_must_have_the_jars(wanted, lacks):
    """Pass: another version does, another artifact does not."""
    present = {
        "spark.jars": "/x/one-1.0.jar,file:/y/three-2.jar",
        "spark.jars.packages": "org.example:four_2.13:1",
    }
    if lacks:
        with pytest.raises(MachineError, match=f"lacks jars: {lacks}"):
            jars.check_present(wanted, present)
    else:
        jars.check_present(wanted, present)
