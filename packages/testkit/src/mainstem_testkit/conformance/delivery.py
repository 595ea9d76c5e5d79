"""The standard tests of delivery strategies: what one promises holds, whatever happens to its calls.

A strategy knows abilities of sinks only, so it is tried on a model of them, without Spark: see
`external_system` for what the model does, `world` for what may happen, and `courses` for how that is
tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import pytest
from mainstem import Changelog, Delivery, Events, Level, OptionError, Promise, Shape
from mainstem.contracts.components import Component
from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan

from mainstem_testkit.conformance._delivery import Setting
from mainstem_testkit.conformance.courses import (
    MANY_STEPS,
    Tried,
    longer,
    played,
    read,
    tried,
)
from mainstem_testkit.conformance.external_system import (
    EVERY,
    PLAIN,
    ExternalSystem,
    Frame,
    Kind,
    sink_class,
)
from mainstem_testkit.conformance.suite import Suite, not_claimed, proves
from mainstem_testkit.pipelines import PipelineFolder

#: What rows may be: events, changes with a sequence, and changes that come batch by batch.
SHAPES: tuple[Shape, ...] = (
    Events("name STRING", identity=["name"]),
    Changelog("key STRING, value STRING, sequence BIGINT", ["key"], "sequence"),
    Changelog("key STRING, value STRING", ["key"]),
)


class _TouchedError(AssertionError):
    """A promise was not made of what the sink is alone."""


class DeliverySuite(Suite):
    """The standard tests of a delivery strategy.

    ```python
    class TestTwice(DeliverySuite):
        use = "twice"
    ```

    Most of them look at the same courses of a run, of one that takes its place, and of a checkpoint that
    restarts: decisions about who goes on and what comes of its call.
    """

    kind: ClassVar[str] = "delivery"
    #: How many courses are tried of each sink and kind of rows, and how many long ones.
    courses: ClassVar[int] = 100
    long_courses: ClassVar[int] = 20

    _tried: ClassVar[dict[type, list[Tried]]] = {}

    @pytest.fixture
    def quick_java(self) -> None:
        """No Java is needed here."""

    def parts(self, **changes: Any) -> dict[str, Any]:
        return self._parts({**self.options(), **changes})

    def _parts(self, options: Mapping[str, Any]) -> dict[str, Any]:
        deliver = {"use": self.use, "with": dict(options)}
        return {
            "sources": {"rows": {"use": "rate"}},
            "sinks": {"subject": {"use": "console", "from": "rows", "deliver": deliver}},
        }

    def _plan_with(self, options: Mapping[str, Any]) -> Plan:
        whole = PipelineFolder(self.place / "pipeline")
        return make_plan(whole.document(**self._parts(options)).file)

    @cached_property
    def component(self) -> Component:
        """The strategy, made as a document makes it."""
        return self._make()

    @cached_property
    def _make(self) -> Callable[[], Delivery]:
        made = self.component_class()
        options = made.options_model().model_validate(dict(self.options()))

        def make() -> Delivery:
            strategy = made(options)
            assert isinstance(strategy, Delivery)
            return strategy

        return make

    # -- promises ---------------------------------------------------------------------------

    def _promised(self, sink: Kind, shape: Shape) -> Promise:
        """Return what the strategy promises.

        Raises:
            OptionError: it can't serve the sink.
            _TouchedError: it called the sink for that.
        """
        touched: list[str] = []

        def hand(name: str, *_: Any) -> Any:
            touched.append(name)
            raise _TouchedError

        def frame(*_: Any) -> Frame:
            raise _TouchedError

        made = sink_class(sink.abilities)(sink, ExternalSystem(), hand, frame)
        try:
            return self._make().promise(made, shape)
        finally:
            if touched:
                raise _TouchedError(f"to promise something for {sink}, it called {touched[0]}")

    def _settings(self, sinks: tuple[Kind, ...] = PLAIN) -> Iterator[Setting]:
        """Yield each sink and shape that the strategy serves."""
        for sink, shape in itertools.product(sinks, SHAPES):
            if self._refusal(sink, shape) is None:
                yield Setting(self._make, sink, shape, self._promised(sink, shape))

    @proves("promise")
    def test_a_promise_is_made_of_what_the_sink_is(self) -> None:
        """It is made without a call at the external system, and is the same when asked for again."""
        for sink, shape in itertools.product(EVERY, SHAPES):
            if self._refusal(sink, shape) is None:
                first, again = self._promised(sink, shape), self._promised(sink, shape)
                assert isinstance(first, Promise), f"for {sink} it promises {first!r}"
                assert first == again, f"for {sink} it promises now {first}, then {again}"

    @proves("promise")
    def test_a_sink_that_lacks_what_is_needed_is_refused_by_its_name(self) -> None:
        """`promise` raises OptionError for a sink that it can't serve, and names what that lacks."""
        served = {setting.shape for setting in self._settings(EVERY)}
        refused = 0
        for sink, shape in itertools.product(EVERY, SHAPES):
            refusal = self._refusal(sink, shape)
            refused += refusal is not None
            if isinstance(refusal, OptionError):
                named = any(name in refusal.message for name in sink.lacking)
                assert named or shape not in served, (
                    f"a sink that has only {sink} is refused without a word of what it lacks: "
                    f"{refusal.message}"
                )
            elif refusal is not None:
                raise AssertionError(
                    f"a sink that has only {sink} is refused by {type(refusal).__name__}, and not by "
                    f"OptionError: {refusal}"
                ) from refusal
        if not refused:
            not_claimed("an ability of sinks")

    def _refusal(self, sink: Kind, shape: Shape) -> Exception | None:
        try:
            self._promised(sink, shape)
        except _TouchedError:
            raise
        except Exception as error:
            return error
        return None

    @proves("promise")
    def test_each_sink_that_is_accepted_is_written_to(self) -> None:
        """Whatever sink a promise is made for: without any fault all of it goes well."""
        served = list(self._settings(EVERY))
        assert served, "no sink of any abilities is accepted"
        for setting in served:
            world = played(setting, ())
            assert not world.faults, f"{setting}: {'; '.join(world.faults.values())}"

    # -- what a promise is worth ------------------------------------------------------------

    def _all(self) -> list[Tried]:
        """Return what the courses have shown; done once for all tests of a class."""
        known = DeliverySuite._tried
        if type(self) not in known:
            known[type(self)] = [tried(setting, self.courses) for setting in self._settings()]
        assert known[type(self)], "no sink of the model is served"
        return known[type(self)]

    def _never(self, kind: str) -> None:
        """Hold that no course has shown a kind of fault."""
        for each in self._all():
            if kind in each.findings:
                raise AssertionError(str(each.findings[kind]))

    def _claimed(self, what: str, *claims: bool) -> None:
        if not any(claims):
            not_claimed(what)

    @proves("nothing lost")
    def test_nothing_is_lost(self) -> None:
        """Each row of each batch is there at the end, unless the promise says that it may be lost."""
        promises = [each.setting.promise for each in self._all()]
        self._claimed("that nothing is lost", *(not each.may_lose for each in promises))
        self._never("lost")

    @proves("nothing doubled")
    def test_nothing_is_doubled(self) -> None:
        """No row is there twice at the end, unless the promise says that it may be."""
        promises = [each.setting.promise for each in self._all()]
        self._claimed("that nothing is doubled", *(not each.may_double for each in promises))
        self._never("doubled")

    @proves("changes")
    def test_the_newest_change_of_each_key_stands(self) -> None:
        """A table that is written by key is at the end what the newest changes make it."""
        self._claimed("KeyedWrites", *("write_keyed" in each.names for each in self._all()))
        self._never("table")

    @proves("refused rows")
    def test_what_the_sink_refused_is_told_with_its_batch(self) -> None:
        """`write` returns the refused rows of a batch that went in, also if that was an earlier try."""
        self._never("refused")

    @proves("staging")
    def test_nothing_is_left_at_the_staging_place(self) -> None:
        """What a try, or a run that was replaced, has staged is gone when the last batch is in."""
        self._claimed("Staged", *("stage" in each.names for each in self._all()))
        self._never("staging")

    @proves("fencing")
    def test_a_run_that_was_replaced_has_no_effect(self) -> None:
        """Once the next run has written, no call of the old one changes what a reader sees."""
        levels = [each.setting.promise.level for each in self._all()]
        self._claimed("exactly-once", Level.EXACTLY_ONCE in levels)
        self._never("fencing")

    @proves("errors")
    def test_it_fails_when_the_external_system_does_and_then_alone(self) -> None:
        """`write` returns, a frame or None, unless a call failed; it comes to an end."""
        self._never("errors")

    @proves("frames")
    def test_frames_are_handed_on_as_they_are(self) -> None:
        """A frame is not looked at, which would compute it once more than the sink does; nor left out."""
        self._never("frames")

    @proves("long courses")
    def test_long_courses_end_as_promised(self) -> None:
        """More batches, runs and faults: nothing is wrong."""
        served = list(self._settings())
        assert served, "no sink of the model is served"
        for setting in served:
            shown = tried(longer(setting), self.long_courses, short=0, steps=MANY_STEPS)
            for finding in shown.findings.values():
                raise AssertionError(str(finding))

    def replay(self, setting: str, course: str) -> None:
        """Try one course again, as a failed test has told it.

        Raises:
            AssertionError: it still shows a fault.
        """
        served = list(self._settings(EVERY))
        known = {str(each): each for each in (*served, *map(longer, served))}
        assert setting in known, f"{self.use} serves none such: {setting}; but: {', '.join(known)}"
        world = played(known[setting], read(course))
        steps = "\n".join(world.transcript())
        print(steps)
        assert not world.faults, f"{'; '.join(world.faults.values())}\n{steps}"
