"""The suite of sinks: a sound one passes, and each fault is caught by the test that is there for it."""

from __future__ import annotations

import base64
from inspect import signature

import pytest
from mainstem_testkit.conformance import sink
from mainstem_testkit.conformance.report import Unshown
from mainstem_testkit.conformance.sink import SinkSuite
from mainstem_testkit.conformance.values import TYPES as TYPED
from zoo.table import ExternalSystem, read


class ZooSinks(SinkSuite):
    deliver = "microbatch"  # whatever else is installed
    refused = {"id": 99, "name": "refuse me"}

    def options(self):
        return {"path": str(self.place / "table.db")}

    def prepare(self):
        self.server = ExternalSystem(self.place)

    def rows(self, schema):
        return read(self.place / "table.db")


@pytest.mark.slow
class TestSoundSink(ZooSinks):
    use = "zoo_table"


TYPES = "values_of_every_type_come_back_as_they_were_or_are_refused"
KEYED = "changes_in_any_order_leave_the_newest_of_each_key"
AGAIN = "a_batch_written_again_is_there_as_after_once"
CUT = "a_batch_cut_in_the_middle_is_whole_after_its_retry"
DIES = "a_run_that_dies_at_a_crash_point_does_no_harm"
KILLED = "a_kill_at_each_crash_point_does_no_harm"
LEDGER = "the_ledger_says_what_is_in"
STAGED = "staged_rows_are_seen_when_published_and_not_before"
MANY = "the_rows_of_many_tasks_are_there_once"
BESIDE = "batches_stand_beside_each_other"
FENCED = "a_run_that_was_replaced_writes_nothing_more"
TURNS = "a_run_that_was_replaced_leaves_the_staged_rows_of_the_next"
UNSEQUENCED = "without_a_sequence_the_last_batch_wins"
IDS = "rows_that_are_there_are_known_by_their_id"
SWAPPED = "what_is_built_beside_is_seen_once_it_is_swapped"
SHOWN = "the_level_that_tests_have_shown_is_the_one_promised"

FAULTS = [
    ("zoo_doubling", AGAIN, "doubled: .*row 0"),
    ("zoo_doubling", DIES, "zoo.after-commit:1:die: doubled"),
    ("zoo_doubling", KILLED, "zoo.after-commit:1:kill: doubled"),
    ("zoo_remembering", KILLED, "zoo.after-commit:1:kill: doubled"),
    ("zoo_tidying_up", KILLED, "zoo.after-commit:1:kill: doubled"),
    ("zoo_half", CUT, "lost: .*row 10"),
    ("zoo_deaf_to_tasks", CUT, "a task failed, and the write ended as if all were well"),
    ("zoo_deaf", "an_external_system_that_is_down_fails_the_batch_until_it_is_back", "the external system was down, and"),
    ("zoo_coarse", TYPES, r"^timestamp: .*123456.* came back as [^\n]*\n"),
    ("zoo_blank", TYPES, "string: None came back as ''"),
    ("zoo_late", TYPES, "array<int>: neither refused nor written: no lists"),
    ("zoo_mumbling", TYPES, "binary: refused without the column's name"),
    ("zoo_backwards", KEYED, r"not the newest: \d"),
    ("zoo_undying", KEYED, r"there again: \d.* newest: none"),
    ("zoo_boaster", LEDGER, "is in before it was written"),
    ("zoo_forgetter", LEDGER, "is not in which was written"),
    ("zoo_open_stage", STAGED, "8 rows of a staged batch are seen"),
    ("zoo_litter", STAGED, "doubled"),
    ("zoo_nameless", BESIDE, "lost: .*row 0"),
    ("zoo_sinkless", "two_sinks_of_one_query_stand_beside_each_other", "lost: .*row 0"),
    ("zoo_swallower", "refused_rows_come_back_with_a_reason", "0 rows were returned as refused"),
    ("zoo_counting", MANY, "the write evaluated rows more than once, in partitions "),
    ("zoo_glancing", MANY, "the write left some of its rows unread, in partitions "),
    ("zoo_amnesiac", "forgetting_takes_back_later_batches_alone", "lost: .*row 3"),
    ("zoo_fenceless", FENCED, "Transactional let a run write that had been replaced"),
    ("zoo_fenced_by_batch", FENCED, "Transactional let a run write that had been replaced"),
    ("zoo_fences_ledgers_alone", FENCED, "IdentifiedWrites let a run write that had been replaced"),
    ("zoo_fences_all_but_keys", FENCED, "KeyedWrites let a run write that had been replaced"),
    ("zoo_trampling", TURNS, "lost: .*row 0"),
    ("zoo_hollow", TURNS, "discarded by the next run before it published, and the write ended as if"),
    ("zoo_knows_nobody", IDS, "doubled: .*row 0"),
    ("zoo_forgets_refusals", "what_a_batch_refused_is_told_again", r"Transactional: .*told again: \[\] by try 2"),
    ("zoo_compares_batches", UNSEQUENCED, "batch 0 of the second checkpoint: .*not 0 anew"),
    ("zoo_incurious", "a_batch_written_again_is_evaluated_again", "write number 2 of a batch left some"),
    ("zoo_careless", BESIDE, "lost: .*row 0"),
    ("zoo_trusting", "an_old_copy_of_a_checkpoint_is_refused", "Transactional let a run write of an old copy"),
    ("zoo_in_place", SWAPPED, "not to be seen: .*row 4"),
    ("zoo_adding", SWAPPED, "reader saw .* and 3 more|not to be seen: .*row 0"),
    ("zoo_blinking", SWAPPED, "neither what was there before nor what is there after: a reader saw none"),
    ("zoo_braggart", SHOWN, "shows exactly-once by microbatch, which promises at-least-once"),
]  # fmt: skip


#: The types that the faults are about.
AFFECTED = ("string", "binary", "timestamp", "array<int>")


def suite_of(word, place, **more):
    suite = type("Suite", (ZooSinks,), {"use": word, **more})()
    suite._move(place / "place")
    return suite


@pytest.mark.parametrize(("word", "test", "words"), FAULTS)
@pytest.mark.in_turn
def test_each_fault_is_caught(word, test, words, spark, tmp_path, monkeypatch):
    """Pass: the standard test fails, in words that tell the fault."""
    monkeypatch.setattr(sink, "TYPES", {kind: TYPED[kind] for kind in AFFECTED})
    suite = suite_of(word, tmp_path)
    named = getattr(suite, f"test_{test}")
    given = {"spark": spark} if "spark" in signature(named).parameters else {}
    with pytest.raises((AssertionError, Unshown), match=words):
        named(**given)


@pytest.mark.parametrize("word", ["zoo_remembering", "zoo_tidying_up"])
@pytest.mark.in_turn
def test_what_a_run_that_dies_here_can_not_show(word, spark, tmp_path):
    """Pass: what rests on the memory of the process, or on its last steps, is found by kills alone."""
    getattr(suite_of(word, tmp_path), f"test_{DIES}")(spark)


@pytest.mark.in_turn
def test_a_sink_that_nobody_can_read_may_not_promise_much(spark, tmp_path):
    """Pass: neither that it doubles nothing, nor an ability, goes unproven."""
    suite = suite_of("zoo_table", tmp_path, rows=lambda self, schema: None)
    with pytest.raises(AssertionError, match="doubles nothing is not shown"):
        getattr(suite, f"test_{BESIDE}")(spark)
    with pytest.raises(AssertionError, match="Transactional is not shown"):
        getattr(suite, f"test_{LEDGER}")(spark)


@pytest.mark.parametrize("test", [MANY, "a_batch_written_again_is_evaluated_again"])
@pytest.mark.in_turn
def test_a_sink_that_nobody_can_read_must_read_all_the_same(test, spark, tmp_path):
    """Pass: rows that it leaves unread are told, before the test ends for what can't be shown."""
    suite = suite_of("zoo_glancing", tmp_path, rows=lambda self, schema: None)
    with pytest.raises(AssertionError, match="left some of its rows unread"):
        getattr(suite, f"test_{test}")(spark)


@pytest.mark.parametrize(
    ("deliver", "key", "made"),
    [("zoo_keyed", ("name", "id"), "_commit_version"), ("zoo_by_id", (), "_id")],
)
@pytest.mark.in_turn
def test_a_suite_says_how_it_writes(deliver, key, made, spark, tmp_path):
    """Pass: rows come by the strategy and with the key that it names, batch by batch and by a document."""
    named = {"use": deliver, "with": {"on_purpose": True}}
    suite = suite_of("zoo_table", tmp_path, deliver=named, key=key)
    assert suite._node().delivery_word == deliver
    assert getattr(suite._shape, "key", ()) == key
    getattr(suite, f"test_{BESIDE}")(spark)
    assert {made in row for row in suite.rows("")} == {True}
    suite._elsewhere("again")
    getattr(suite, f"test_{AGAIN}")(spark)
    suite._elsewhere("document")
    pipeline = suite.pipeline()
    pipeline.feed("1.jsonl", [suite.row(number) for number in range(3)])
    pipeline.run()
    suite._check(range(3), doubled=False)


@pytest.mark.parametrize("test", [BESIDE, FENCED, KEYED, UNSEQUENCED, IDS])
@pytest.mark.in_turn
def test_a_sink_is_made_ready_for_what_is_written(test, spark, tmp_path):
    """Pass: a sink that has `prepare` is given each frame's columns and shape before the first of them."""
    getattr(suite_of("zoo_prepares", tmp_path), f"test_{test}")(spark)


@pytest.mark.parametrize("word", ["zoo_changes", "zoo_message_table"])
@pytest.mark.in_turn
def test_sinks_that_take_changes_or_messages_alone(word, spark, tmp_path):
    """Pass: the suite writes what the sink takes, batch by batch and through a document."""
    suite = suite_of(word, tmp_path)
    getattr(suite, f"test_{BESIDE}")(spark)
    suite._elsewhere("document")
    lines = [dict(suite.row(number)) for number in range(3)]
    for line in lines:
        line |= {n: base64.b64encode(v).decode() for n, v in line.items() if isinstance(v, bytes)}
    pipeline = suite.pipeline()
    pipeline.feed("1.jsonl", lines)
    pipeline.run()
    suite._check(range(3))
