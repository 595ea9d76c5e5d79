"""What the suites share: the component under test, its place, and the rules of the game."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import pytest
from mainstem import DocumentError, PluginError
from mainstem.contracts.ability import abilities
from mainstem.contracts.components import Component
from mainstem.contracts.options import Options
from mainstem.errors import Problem
from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan
from mainstem.registry import Registry
from pydantic import ValidationError

from mainstem_testkit.conformance.report import NotClaimed, NotGiven
from mainstem_testkit.crashing import Oracle, crash_at_every_point
from mainstem_testkit.pipelines import PipelineFolder
from mainstem_testkit.server import Server
from mainstem_testkit.turns import Tier, Turn

TestT = TypeVar("TestT", bound=Callable[..., None])

#: Values that hardly an option takes.
_ODD: tuple[Any, ...] = ({"no": {"such": ["value"]}}, [[{}]], "\x00")


#: A test that waits for `quiet`, of more than so many seconds, is run in turn.
_LONG = 2.0


def proves(
    claim: str,
    *,
    dear: bool = False,
    runs: bool = False,
    waits: bool = False,
    shown_by: str | tuple[str, ...] = (),
) -> Callable[[TestT], TestT]:
    """Say which claim a standard test proves; the report lists tests by claim.

    Args:
        dear: it takes many runs, kills processes or stops the server, so it is run in turn, and of a
            variant only with all.
        runs: it takes a few runs on Spark, so it is run in turn.
        waits: it waits for what may still come, so it is run in turn where that takes long (`quiet`).
        shown_by: the mechanisms of which their own tests show the same: for a component on one of them
            it is run with all tests alone.
    """

    def mark(test: TestT) -> TestT:
        test.proves = claim  # type: ignore[attr-defined]
        test.dear = dear  # type: ignore[attr-defined]
        test.runs = runs  # type: ignore[attr-defined]
        test.waits = waits  # type: ignore[attr-defined]
        by = (shown_by,) if isinstance(shown_by, str) else shown_by
        test.shown_by = by  # type: ignore[attr-defined]
        return test

    return mark


def not_claimed(what: str) -> NoReturn:
    """End a test that asks for what the component does not claim."""
    raise NotClaimed(what)


def not_given(what: str) -> NoReturn:
    """End a test that lacks what the test module could have given: it shows nothing."""
    raise NotGiven(what)


class Suite:
    """The standard tests of one kind; subclass that of the kind, and say what is tested.

    A standard test can't be replaced. One that the component is known to fail is listed in
    `expected_failures`, with the reason; it then must fail, and the report tells.
    """

    #: The component's kind, as in `mainstem plugins`.
    kind: ClassVar[str]
    #: The component's word, as in `use: WORD`.
    use: ClassVar[str] = ""
    #: When nothing has come from the external system for so many seconds, nothing more will: longer than
    #: it keeps from others what somebody had who is gone.
    quiet: ClassVar[float] = 0.7
    #: The fixture of the server that the component talks to, if there is one.
    server_fixture: ClassVar[str] = ""
    #: The mechanism of which these are the tests: what they show, others on it need not show each time.
    stands_for: ClassVar[str] = ""
    #: Standard tests that are known to fail: the reasons by the tests' names.
    expected_failures: ClassVar[Mapping[str, str]] = {}
    #: Options that are wrong beside the ones that `options` gives: the changed options, by the name
    #: of the option that the error must name. The suite itself tries unknown, missing and odd ones.
    wrong_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    #: The test's own folder; a crash test has one for each trial.
    place: Path
    #: The server of `server_fixture`, there before `prepare` is called.
    server: Server | None = None
    _turn = Turn(None, 1, "a test that stands alone takes all")

    def options(self) -> Mapping[str, Any]:
        """Return the component's options, as in the document's `with`.

        What is outside this process (a topic, a table) is named after `self.place`, so that each
        test, and each trial of a crash test, has its own.
        """
        return {}

    def prepare(self) -> None:
        """Make what the options name; called once for each new `self.place`."""

    # -- the rules --------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        base = next(b for b in cls.__mro__[1:] if b.__module__.startswith(__package__))
        if cls.__module__.startswith(__package__):
            return
        standard = {name for name in dir(base) if name.startswith("test_")}
        for name in standard:
            if getattr(cls, name) is not getattr(base, name):
                raise TypeError(
                    f"{cls.__name__}.{name} is standard; if it must fail, say why: {_RULE}"
                )
        for name in cls.expected_failures:
            if name not in standard:
                raise TypeError(f"{cls.__name__}: there is no standard test {name!r}")
        for name, reason in cls.expected_failures.items():
            if not reason.strip():
                raise TypeError(f"{cls.__name__}: no reason why {name} fails")

    @classmethod
    def standard_tests(cls) -> dict[str, str]:
        """Return the claims that the standard tests prove, by the tests' names, in order."""
        found: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            for name, test in vars(base).items():
                if claim := getattr(test, "proves", None):
                    found[name] = claim
        return found

    @classmethod
    def tier(cls, name: str) -> Tier:
        """Return when a standard test is run.

        Every time, unless it takes a few runs on Spark, waits long or is dear: then in turn. Of a
        variant all is in turn, and what is dear only with all; so is what a mechanism's own tests show
        that the component is built on. The first class of a module that tests a word stands for the
        word; the others are variants.
        """
        test: Any = getattr(cls, name, None)
        if not getattr(test, "proves", None):
            return Tier.EVERY
        shown = bool(({*test.shown_by} - {cls.stands_for}) & cls.mechanisms())
        variant = cls._is_variant()
        if shown or (variant and test.dear):
            return Tier.ALL
        slow = test.dear or test.runs or (test.waits and cls.quiet > _LONG)
        return Tier.TURN if slow or variant else Tier.EVERY

    @classmethod
    def mechanisms(cls) -> frozenset[str]:
        """Return what the component is built on, and no more: `ingress`, `egress`, `keyed_state`, ..."""
        try:
            made = cls.component_class()
        except PluginError:  # each test tells
            return frozenset()
        modules = [base.__module__.split(".") for base in made.__mro__]
        own = {path[1] for path in modules if path[0] == "mainstem" and len(path) > 1}
        return frozenset({path[0].removeprefix("mainstem_") for path in modules} | own)

    @classmethod
    def _is_variant(cls) -> bool:
        """Whether an earlier class of the module tests the same word by the same suite."""
        tested = (cls.kind, cls.use, cls.standard_tests())
        for other in vars(sys.modules[cls.__module__]).values():
            if not (isinstance(other, type) and issubclass(other, Suite)):
                continue
            same = (other.kind, other.use, other.standard_tests()) == tested
            if same and other.__name__.startswith("Test"):
                return other is not cls
        return False

    @classmethod
    @cache
    def component_class(cls) -> type[Component]:
        """Return the class behind the word."""
        return Registry().component(cls.kind, cls.use)

    def given(self) -> dict[str, Any]:
        """Return all options that a document gives the node `subject`."""
        return dict(self.options())

    @classmethod
    def model(cls, given: Mapping[str, Any]) -> type[Options]:
        """Return the model of what a document gives."""
        return cls.component_class().options_for(given, Registry().component)

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Return who is tested: kind, word, distribution and version, abilities."""
        found = {"kind": cls.kind, "word": cls.use, "core": version("mainstem")}
        try:
            word = Registry().find(cls.kind, cls.use)
            able = abilities(cls.component_class())
        except PluginError:  # each test tells
            return {**found, "distribution": "broken", "version": "", "abilities": []}
        who = {"word": word.name, "distribution": word.distribution, "version": word.version}
        return {**found, **who, "abilities": able}

    @pytest.fixture(autouse=True)
    def _in_its_place(
        self, tmp_path: Path, quick_java: None, request: pytest.FixtureRequest
    ) -> None:
        assert self.use, f"{type(self).__name__} does not say which word is tested: `use`"
        self._turn = request.getfixturevalue("turn")
        if self.server_fixture:
            self.server = request.getfixturevalue(self.server_fixture)
        self._move(tmp_path / "place")

    def _move(self, place: Path) -> None:
        """Make another place the test's own."""
        self.place = place
        place.mkdir(parents=True)
        self.prepare()

    # -- the component ----------------------------------------------------------------------

    def parts(self, **changes: Any) -> dict[str, Any]:
        """Return the parts of a document with the component, which the node `subject` is."""
        raise NotImplementedError

    def plan(self, **changes: Any) -> Plan:
        """Return the plan of that document; `changes` are to the component's options."""
        return make_plan(self.pipeline(**changes).file)

    def pipeline(self, **changes: Any) -> PipelineFolder:
        """Write that document into the place."""
        return PipelineFolder(self.place / "pipeline").document(**self.parts(**changes))

    @cached_property
    def component(self) -> Component:
        """The component, made as a document makes it."""
        return self.plan().nodes["subject"].component

    def can(self, ability: type) -> Any:
        """Return the component if it has an ability; end the test if not."""
        if not isinstance(self.component, ability):
            not_claimed(ability.__name__)
        return self.component

    def break_at_crash_points(
        self,
        pipeline: PipelineFolder,
        oracle: Oracle,
        before: Callable[[PipelineFolder], None],
        others: tuple[str, ...] = ("run.",),
        *,
        here: bool = False,
    ) -> None:
        """Kill a pipeline at the component's crash points; see `crash_at_every_point`.

        One without any is killed after a batch was written and before its commit. Where dear tests
        are run in turn, so are the points: one in each. With `MAINSTEM_CRASH=all` all points are taken,
        each at its first three passes.

        Args:
            others: what the names of points begin with that are not the component's.
            here: in this process.
        """

        def chosen(points: list[str]) -> list[str]:
            own = [point for point in points if not point.startswith(others)]
            return own or ["run.after-batch"]

        def drawn(points: list[str]) -> list[str]:
            own = chosen(points)
            return self._turn.one(own)

        if os.environ.get("MAINSTEM_CRASH") == "all":
            crash_at_every_point(pipeline, oracle, passes=(1, 2, 3), here=here, before=before)
        else:
            crash_at_every_point(pipeline, oracle, points=drawn, here=here, before=before)

    # -- what every kind must show ----------------------------------------------------------

    @proves("options")
    def test_each_wrong_option_is_refused_by_its_name(self) -> None:
        """Unknown, missing and odd options, and those listed as wrong, are errors that name them."""
        given = self.given()
        model = self.model(given)
        cases: list[tuple[str, dict[str, Any]]] = [
            ("no_such_option", {**given, "no_such_option": 1})
        ]
        for name, field in model.model_fields.items():
            key = field.alias or name
            if field.is_required() and key in given:
                cases.append((key, {k: v for k, v in given.items() if k != key}))
            odd = next(
                (value for value in _ODD if not _takes(model, {**given, key: value}, key)), None
            )
            if odd is not None:
                cases.append((key, {**given, key: odd}))
        cases += [(key, {**given, **changes}) for key, changes in self.wrong_options.items()]
        silent = []
        for key, options in cases:
            try:
                self._plan_with(options)
            except DocumentError as error:
                if any(_names(problem, key) for problem in error.problems):
                    continue
                silent.append(f"{key}: not named in: {error}")
            else:
                silent.append(f"{key}: taken as it is: {options.get(key)!r}")
        assert not silent, "\n".join(silent)

    def _plan_with(self, options: Mapping[str, Any]) -> Plan:
        """Return the plan with exactly these options."""
        whole = PipelineFolder(self.place / "pipeline")
        parts = self.parts()
        section = next(s for s in parts.values() if isinstance(s, dict) and "subject" in s)
        section["subject"] = {**section["subject"], "with": dict(options)}
        return make_plan(whole.document(**parts).file)


def _names(problem: Problem, key: str) -> bool:
    """Whether a problem is about an option, by its path or by its name in quotes."""
    return key in problem.key.split(".") or any(
        f"{quote}{key}{quote}" in problem.message for quote in "'`"
    )


def _takes(model: Any, options: Mapping[str, Any], key: str) -> bool:
    """Whether a model finds no fault with one option."""
    try:
        model.model_validate(options)
    except ValidationError as error:
        return all(problem["loc"][:1] != (key,) for problem in error.errors())
    return True


_RULE = 'expected_failures = {"test_...": "reason"}'
