"""The suite of strategies: sound ones pass, and each fault is caught by the test that is there for it."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from mainstem_testkit import DeliverySuite
from mainstem_testkit.conformance.courses import by_chance, every, played, tried
from mainstem_testkit.conformance.report import Unshown

DOCS = Path(__file__).parents[3] / "docs"


class TestMicrobatch(DeliverySuite):
    use = "microbatch"


class ZooDelivery(DeliverySuite):
    def options(self):
        return {"on_purpose": True}


class TestWithMemory(ZooDelivery):
    """Two calls for a batch, tries of its own, and something to remember: sound all the same."""

    use = "zoo_patient"


class TestChangesAlone(ZooDelivery):
    use = "zoo_keyed"


class TestEventsAlone(ZooDelivery):
    use = "zoo_by_id"


LOST, DOUBLED = "test_nothing_is_lost", "test_nothing_is_doubled"
REFUSED = "test_what_the_sink_refused_is_told_with_its_batch"
ACCEPTED = "test_each_sink_that_is_accepted_is_written_to"
LACKING = "test_a_sink_that_lacks_what_is_needed_is_refused_by_its_name"
PROMISE = "test_a_promise_is_made_of_what_the_sink_is"
FRAMES = "test_frames_are_handed_on_as_they_are"
LONG = "test_long_courses_end_as_promised"

FAULTS = [
    ("zoo_boasts", DOUBLED, "^doubled: more than once there: 0a"),
    ("zoo_asks_then_writes", DOUBLED, "^doubled: more than once there: 0a"),
    ("zoo_writes_then_asks", DOUBLED, "^doubled: more than once there: 0a"),
    ("zoo_never_discards", DOUBLED, "^doubled: more than once there: 0a"),
    ("zoo_never_discards", "test_nothing_is_left_at_the_staging_place", "^staging: rows of batch 0 are left"),
    ("zoo_tidies_up_after_errors", DOUBLED, r"^doubled: (.*\n)*.*stage of batch 0: the process was killed"),
    ("zoo_swallows_errors", LOST, "^lost: not there: 0a"),
    ("zoo_tries_once", FRAMES, "batch 0 was left unread: Spark fails"),
    ("zoo_swallows_refused", REFUSED, r"^refused: batch 0 went in, .* \(0x\) was told: none"),
    ("zoo_takes_anything", ACCEPTED, "appends, events, 3 batches: raised AttributeError: .*'write_once'"),
    ("zoo_needs_no_id", ACCEPTED, "raised ValueError: rows without `_id`"),
    ("zoo_asks_to_promise", PROMISE, "to promise something for Staged, it called discard"),
    ("zoo_changes_its_mind", PROMISE, "then Promise"),
    ("zoo_tells_no_ability", LACKING, "only appends is refused without a word .* not this one"),
    ("zoo_raises_anything", LACKING, "only appends is refused by AttributeError"),
    ("zoo_counts_rows", FRAMES, "a frame was asked for 'count'"),
    ("zoo_skips_what_is_in", FRAMES, "batch 0 was left unread: Spark fails"),
    ("zoo_hides_its_run", "test_a_run_that_was_replaced_has_no_effect", "^fencing: run 1 had been replaced"),
    ("zoo_drops_the_sequence", "test_the_newest_change_of_each_key_stands", "^table: the table is "),
    ("zoo_waits", "test_it_fails_when_the_external_system_does_and_then_alone", "does not come to an end"),
    ("zoo_turns", LOST, "does not do the same when the same happens again"),
    ("zoo_knows_rows", DOUBLED, r"^doubled: (.*\n)*.*another checkpoint begins"),
    ("zoo_boasts", LONG, r"^(doubled: more than once there: \da|fencing: run \d)"),
    ("zoo_tries_once", LONG, r"^(lost: not there: \da|refused: batch \d went|frames: batch \d was left unread)"),
    ("zoo_hides_its_run", LONG, r"^fencing: run \d had been replaced"),
]  # fmt: skip


def suite_of(word, place, **more):
    kind = ZooDelivery if word.startswith("zoo_") else DeliverySuite
    suite = type("Suite", (kind,), {"use": word, **more})()
    suite._move(place / "place")
    return suite


@pytest.mark.parametrize(("word", "test", "words"), FAULTS)
@pytest.mark.in_turn
def test_each_fault_is_caught(word, test, words, tmp_path):
    """Pass: the standard test fails, in words that tell the fault."""
    with pytest.raises((AssertionError, Unshown), match=words):
        getattr(suite_of(word, tmp_path), test)()


@pytest.mark.parametrize(
    ("word", "test", "why"),
    [
        ("microbatch", LACKING, "an ability of sinks"),
        ("zoo_once", "test_nothing_is_left_at_the_staging_place", "Staged"),
        ("zoo_once", "test_the_newest_change_of_each_key_stands", "KeyedWrites"),
    ],
)
def test_what_is_not_claimed_is_not_asked_for(word, test, why, tmp_path):
    """Pass: the test ends as not claimed, and says what."""
    with pytest.raises(Unshown, match=f"not claimed: {why}"):
        getattr(suite_of(word, tmp_path, courses=5), test)()


@pytest.mark.in_turn
def test_a_course_that_fails_is_told_so_that_it_can_be_tried_again(tmp_path, capsys):
    """Pass: as the docs print it; what it says to call fails again, in the same words; sound, it passes."""
    suite = suite_of("zoo_tidies_up_after_errors", tmp_path)
    with pytest.raises(AssertionError) as told:
        getattr(suite, DOUBLED)()
    first = "\n".join(str(told.value).splitlines()[:6])
    assert f"```\n{first}\n  ...\n```" in (DOCS / "testing-a-plugin.md").read_text()
    again = re.search(r"self\.replay\('(?P<setting>.*)', '(?P<course>.*)'\)", str(told.value))
    with pytest.raises(AssertionError, match="more than once there: 0a"):
        suite.replay(**again.groupdict())
    assert "stage of batch 0: the process was killed" in capsys.readouterr().out
    suite_of("zoo_stages", tmp_path / "sound").replay(**again.groupdict())
    with pytest.raises(ValueError, match="'1 sleeps' is no decision"):
        suite.replay(again["setting"], "1 done, 1 sleeps")
    with pytest.raises(AssertionError, match="serves none such: nowhere; but: Staged, events"):
        suite.replay("nowhere", "1 done")


@pytest.mark.parametrize(
    "word", ["zoo_stages", "zoo_tidies_up_after_errors", "zoo_asks_then_writes", "zoo_patient"]
)
@pytest.mark.in_turn
def test_chance_finds_what_every_short_course_shows(word, tmp_path):
    """Pass: no course of up to three decisions shows a kind of fault that those by chance do not."""
    suite = suite_of(word, tmp_path)
    for setting in islice(suite._settings(), 4):
        kinds = {kind for course in every(setting, 3) for kind in played(setting, course).faults}
        chance = (by_chance(setting, f"{n}", 12)[1] for n in range(suite.courses))
        assert kinds <= {kind for world in chance for kind in world.faults}


def test_a_course_that_is_found_is_one_that_can_do_without_nothing(tmp_path):
    """Pass: each decision of it is needed for what it shows."""
    suite = suite_of("zoo_tidies_up_after_errors", tmp_path)
    (finding, *_) = (f for s in suite._settings() for f in tried(s, 60).findings.values())
    for at in range(len(finding.course)):
        shorter = (*finding.course[:at], *finding.course[at + 1 :])
        assert all(label <= 1 + n for n, (label, _) in enumerate(finding.course))
        with suppress(ValueError):
            assert finding.kind not in played(finding.setting, shorter).faults


def test_a_model_sink_has_its_abilities_and_no_others(tmp_path):
    """Pass: `isinstance` tells the abilities of a model's sinks as of any."""
    from mainstem import IdentifiedWrites, KeyedWrites, NumberedWrites, Staged, Transactional
    from mainstem_testkit.conformance.external_system import EVERY, ExternalSystem, sink_class

    assert len({(kind.abilities, kind.replaces) for kind in EVERY}) == 64
    for kind in EVERY:
        sink = sink_class(kind.abilities)(kind, ExternalSystem(), None, None)
        able = {
            each.__name__
            for each in (IdentifiedWrites, KeyedWrites, NumberedWrites, Staged, Transactional)
            if isinstance(sink, each)
        }
        assert able == kind.abilities
        assert {*kind.lacking} == {
            "Transactional",
            "Staged",
            "KeyedWrites",
            "IdentifiedWrites",
            "NumberedWrites",
        } - able | (set() if kind.replaces else {"replaces_batch"})
