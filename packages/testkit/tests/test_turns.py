"""Dear tests are run in turn: each commit draws its share, and all come round."""

from __future__ import annotations

import subprocess

import pytest
from mainstem import IdentifiedWrites
from mainstem_testkit import SenderSuite, SinkSuite, SourceSuite
from mainstem_testkit.turns import Tier, Turn, turn_of

TESTS = """
import pytest

@pytest.mark.parametrize("n", range(40))
@pytest.mark.in_turn
def test_dear(n):
    pass

def test_cheap():
    pass
"""
INI = "[pytest]\nmainstem_turns = 10\n"


def git(folder, *arguments):
    """Run git in a folder as somebody."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch):
    """Let the commit draw, whichever turn this run itself is."""
    monkeypatch.delenv("MAINSTEM_TURN", raising=False)


def test_all_come_round_in_as_many_turns_as_there_are():
    """Pass: each test of a file has one turn, and all turns as many, one more or less."""
    took = [sum(Turn(n, 10, "").takes("test_a.py", nth) for nth in range(57)) for n in range(10)]
    assert sorted(took) == [5] * 3 + [6] * 7


def test_files_begin_with_turns_of_their_own():
    """Pass: what files have one of, is not all in one turn."""
    took = [sum(Turn(n, 10, "").takes(f"test_{m}.py", 0) for m in range(1000)) for n in range(10)]
    assert sum(took) == 1000
    assert min(took) > 50


def test_a_commit_always_draws_the_same_and_others_draw_others(tmp_path):
    """Pass: the turn is the commit's own; 40 commits draw at least 7 of 10 turns."""
    git(tmp_path, "init")
    drawn = []
    for n in range(40):
        git(tmp_path, "commit", "--allow-empty", "-m", f"{n}")
        drawn.append(turn_of(tmp_path, 10))
        assert turn_of(tmp_path, 10) == drawn[-1]
    assert len({turn.number for turn in drawn}) >= 7


def test_without_a_commit_all_are_run(tmp_path):
    """Pass: who tests what was downloaded leaves nothing out."""
    assert turn_of(tmp_path, 10).number is None


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
@pytest.mark.in_turn
def test_the_report_names_what_was_drawn(pytester, monkeypatch, workers):
    """Pass: the turn, and each test that it took; all others were left out, cheap ones never."""
    monkeypatch.setenv("MAINSTEM_TURN", "3")
    pytester.makeini(INI)
    pytester.makepyfile(test_it=TESTS)
    drawn = [n for n in range(40) if Turn(2, 10, "").takes("test_it.py", n)]
    result = pytester.runpytest_inprocess(*workers)
    assert len(drawn) == 4
    result.assert_outcomes(passed=len(drawn) + 1)
    result.stdout.fnmatch_lines(
        ["*in turn: 3 of 10*", *(f"test_it.py::test_dear?{n}?" for n in drawn)]
    )


def test_a_further_server_of_the_same_is_tried_in_turn(pytester, monkeypatch):
    """Pass: where a test has others too; one that has that server alone is always run."""
    monkeypatch.setenv("MAINSTEM_TURN", "3")
    pytester.makeini(f"{INI}mainstem_variants = other more\n")
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.parametrize("n", range(20))
        @pytest.mark.parametrize("server", ["first", "other"])
        def test_both(server, n):
            pass

        @pytest.mark.parametrize("server", ["other", "more"])
        def test_alone(server):
            pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=20 + 2 + 2)


@pytest.mark.parametrize(
    ("turn", "arguments", "passed"),
    [
        ("all", (), 41),
        ("1", ("test_it.py::test_dear",), 40),
        ("1", ("-k", "dear"), 40),
    ],
)
def test_all_are_run_when_told_and_those_that_are_asked_for(
    pytester, monkeypatch, turn, arguments, passed
):
    """Pass: nobody who names a test is told that it has another turn."""
    monkeypatch.setenv("MAINSTEM_TURN", turn)
    pytester.makeini(INI)
    pytester.makepyfile(test_it=TESTS)
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=passed)


@pytest.mark.parametrize("turn", ["0", "11", "none"])
def test_a_turn_that_is_none_is_refused(pytester, monkeypatch, turn):
    """Pass: the run ends with the ones that there are."""
    monkeypatch.setenv("MAINSTEM_TURN", turn)
    pytester.makeini(INI)
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*give a number from 1 to 10, or all*"])


def test_the_first_class_of_a_word_stands_for_it():
    """Pass: of it, what is dear or takes a few runs is in turn; of a variant all, the dear with all alone."""

    class TestFirst(SourceSuite):
        use = "rate"

    class TestVariant(SourceSuite):
        use = "rate"

    class TestOther(SourceSuite):
        use = "files"

    globals().update({"TestOne": TestFirst, "TestTwo": TestVariant, "TestThree": TestOther})
    try:
        TestVariant.__name__, TestFirst.__name__ = "TestTwo", "TestOne"
        turns = {
            suite: {name: suite.tier(name) for name in suite.standard_tests()}
            for suite in (TestFirst, TestVariant, TestOther)
        }
    finally:
        for name in ("TestOne", "TestTwo", "TestThree"):
            globals().pop(name)
    assert turns[TestFirst] == turns[TestOther]
    dear, cheap = "test_one_event_and_a_kill_while_idle", "test_rows_are_as_announced"
    assert (turns[TestFirst][dear], turns[TestFirst][cheap]) == (Tier.TURN, Tier.EVERY)
    assert (turns[TestVariant][dear], turns[TestVariant][cheap]) == (Tier.ALL, Tier.TURN)
    runs = "test_positions_only_grow"
    assert (turns[TestFirst][runs], turns[TestVariant][runs]) == (Tier.TURN, Tier.TURN)


def test_a_class_is_a_variant_of_one_with_the_same_tests_alone(monkeypatch):
    """Pass: of a word's classes the first of each suite stands for the word."""
    made = {
        name: type(name, (suite,), {"use": "files", "__module__": __name__})
        for name, suite in (
            ("TestSender", SenderSuite), ("TestOne", SinkSuite), ("TestTwo", SinkSuite)
        )
    }  # fmt: skip
    for name, suite in made.items():
        monkeypatch.setitem(globals(), name, suite)
    dear = "test_a_kill_at_each_crash_point_does_no_harm"
    assert made["TestOne"].tier(dear) == Tier.TURN
    assert made["TestTwo"].tier(dear) == Tier.ALL


@pytest.mark.parametrize(
    ("deliver", "able", "tier"),
    [
        ("", False, Tier.ALL),
        ("", True, Tier.EVERY),
        ("idempotent", True, Tier.EVERY),
        ("microbatch", True, Tier.ALL),
    ],
)
def test_a_mechanism_shows_no_more_than_it_promises(monkeypatch, deliver, able, tier):
    """Pass: a sink on egress dies at crash points in every run where its strategy is to do more than egress
    does; where it is not, egress' own tests show the same."""
    base = type("EgressSink", (), {"__module__": "mainstem_egress.sink"})
    bases, more = (
        ((base, IdentifiedWrites), {"write_new": lambda *_: None}) if able else ((base,), {})
    )
    sink = type("Made", bases, more)

    class TestMade(SinkSuite):
        use = "made"

    TestMade.deliver = deliver
    monkeypatch.setattr(TestMade, "component_class", lambda: sink)
    assert TestMade.tier("test_a_run_that_dies_at_a_crash_point_does_no_harm") == tier


def test_each_commit_draws_one_of_the_points_also_within_one_turn():
    """Pass: one name in each of fifty commits of one turn, each name by some; all where all tests are run."""
    names = [f"p{n}" for n in range(6)]
    taken = [Turn(3, 10, "", draw).one(names) for draw in range(50)]
    assert {len(each) for each in taken} == {1}
    assert {each[0] for each in taken} == set(names)
    assert Turn(None, 10, "").one(names) == names
    assert Turn(3, 10, "", 7).one([]) == []
