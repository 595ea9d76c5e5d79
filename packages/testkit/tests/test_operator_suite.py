"""The standard tests of operators catch what they are for: each fault of the zoo by the test named."""

from __future__ import annotations

import pytest
from mainstem import MainstemError
from mainstem_testkit.conformance.operator import OperatorSuite

PLANNING = "test_planning_needs_no_spark_and_always_gives_the_same"
COLUMNS = "test_outputs_have_the_announced_columns_and_types"
CUTS = "test_batches_partitions_and_restarts_do_not_show"
IDS = "test_each_row_has_an_id_of_its_own_that_stays"
RESERVED = "test_reserved_columns_pass_untouched"
KEPT = "test_each_row_comes_out_once"
ODD = "test_nulls_and_odd_text_do_not_end_the_run"
EMPTY = "test_nothing_comes_of_an_empty_batch"
LATE = "test_no_late_row_is_lost_in_silence"
STATE = "test_state_is_gone_once_time_has_passed"
HOLDS = "test_all_has_come_out_once_time_has_passed"

TIMED = {"zoo_counts", "zoo_keeps_state", "zoo_owns_up_to_its_state", "zoo_counts_batches",
         "zoo_drops_late_rows", "zoo_holds_longer"}  # fmt: skip


@pytest.fixture
def tried(tmp_path, quick_java):
    """Runs one standard test on a word of the zoo."""

    def try_(word, test):
        timed = word in TIMED

        class Zoo(OperatorSuite):
            use = word
            inputs = {"input": "k STRING, at TIMESTAMP, v INT" if timed else "k STRING, v INT"}
            event_time = {"input": "at"} if timed else {}

        suite = Zoo()
        suite._move(tmp_path / word)
        getattr(suite, test)()

    return try_


@pytest.mark.parametrize(
    ("word", "test", "told"),
    [
        ("zoo_plans_with_spark", PLANNING, "zoo/operators.py, line "),
        ("zoo_forgets_its_shape", PLANNING, "and when asked again"),
        ("zoo_lies_about_a_type", COLUMNS, "length is bigint, announced was int"),
        ("zoo_lies_about_null", COLUMNS, "length is NOT NULL, but null in"),
        (
            "zoo_lies_about_an_output",
            COLUMNS,
            "rejected: column payload is string, announced was binary",
        ),
        ("zoo_numbers_the_batch", CUTS, "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING"),
        ("zoo_numbers_the_partition", CUTS, "monotonically_increasing_id() is not supported"),
        ("zoo_counts_batches", CUTS, "the rows differ"),
        ("zoo_new_ids", IDS, "the rows differ"),
        ("zoo_shared_ids", IDS, "without an `_id` of their own"),
        ("zoo_drops_reserved", RESERVED, "does not pass on _extra, _id"),
        ("zoo_keeps_id_alone", RESERVED, "does not pass on _extra"),
        ("zoo_doubles_rows", RESERVED, "rows were made several of"),
        ("zoo_loses_rows", KEPT, "rows went in, and came out"),
        ("zoo_raises_on_null", ODD, "no key"),
        ("zoo_makes_rows", EMPTY, "rows came of nothing"),
        ("zoo_drops_late_rows", LATE, "late rows neither came out nor were counted"),
        ("zoo_keeps_state", STATE, "rows of state are left"),
        ("zoo_holds_longer", HOLDS, "the rows differ"),
    ],
)
@pytest.mark.in_turn
def test_a_fault_is_caught_by_the_test_that_is_for_it(tried, word, test, told):
    """Pass: that standard test fails on the word, and says what is wrong."""
    with pytest.raises((AssertionError, MainstemError)) as caught:
        tried(word, test)
    assert told in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "test"),
    [
        *(("zoo_healthy", each) for each in (PLANNING, COLUMNS, CUTS, IDS, RESERVED, KEPT, ODD, EMPTY)),
        *(("zoo_refuses", each) for each in (COLUMNS, CUTS, RESERVED, KEPT, ODD)),
        *(("zoo_counts", each) for each in (COLUMNS, CUTS, IDS, LATE, STATE, HOLDS)),
    ],
)  # fmt: skip
def test_what_is_healthy_passes(tried, word, test):
    """Pass: the standard tests let the healthy counterparts through."""
    tried(word, test)


@pytest.mark.parametrize(
    ("word", "test", "why"),
    [
        ("zoo_makes_rows", KEPT, "keeps_rows"),
        ("zoo_counts", RESERVED, "row_wise"),
        ("zoo_owns_up_to_its_state", STATE, "every key is kept for ever"),
        ("zoo_healthy", LATE, "Stateful"),
    ],
)
def test_what_is_not_claimed_is_not_asked_for(tried, word, test, why):
    """Pass: the test ends as not claimed, and says what."""
    with pytest.raises(pytest.skip.Exception, match=f"not claimed: .*{why}"):
        tried(word, test)
