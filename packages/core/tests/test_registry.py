"""Plugins: found, told apart, refused in words, and imported only when named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from mainstem.cli.listing import listing
from mainstem.cli.plugins import details
from mainstem.errors import DocumentError, PluginError
from mainstem.plan.build import make_plan
from mainstem.registry import Registry

#: Exactly as printed in docs/writing-a-plugin.md (tests/test_docs.py holds the two together).
HELLO = '''\
from mainstem import Events, Options, Source, hookimpl, option

class HelloOptions(Options):
    rows_per_second: int = option(10, gt=0, description="Rows made each second.")

class Hello(Source):
    """Makes greetings at a steady rate."""
    options: HelloOptions

    def shape(self):
        return Events("greeting STRING, n BIGINT, at TIMESTAMP", identity=["n"])

    def load(self, ctx):
        rate = ctx.read_stream("rate", rowsPerSecond=self.options.rows_per_second)
        return rate.selectExpr("concat('hello ', value) AS greeting", "value AS n", "timestamp AS at")

@hookimpl
def mainstem_sources():
    return {"hello": Hello}
'''


class Site:
    """A folder of installed distributions, made by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self, name: str, code: str, words: str = "hello", group: str = "mainstem.sources",
        requires: str = "mainstem>=0.1,<0.2",
    ) -> None:  # fmt: skip
        module = name.replace("-", "_")
        (self.folder / f"{module}.py").write_text(code)
        info = self.folder / f"{module}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\nRequires-Dist: {requires}\n"
        )
        lines = "".join(f"{word} = {module}\n" for word in words.split())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def document(use: str = "hello", **options: object) -> dict[str, object]:
    return {
        "pipeline": "test",
        "sources": {"greetings": {"use": use, "with": options}},
        "sinks": {"out": {"use": "console", "from": "greetings"}},
    }


def test_the_third_party_source_of_the_docs_works_as_printed(site):
    """Pass: found by its entry point, checked by its options, planned by its shape."""
    site.install("mainstem-hello", HELLO)
    node = make_plan(document(rows_per_second=3)).nodes["greetings"]
    assert node.shape.names == ("greeting", "n", "at")
    assert node.distribution == "mainstem-hello"
    with pytest.raises(DocumentError, match="greater than 0"):
        make_plan(document(rows_per_second=0))
    assert "rows_per_second: integer, default 10" in details("hello")


def test_options_that_most_can_pass_by_are_shown_last(site):
    """Pass: below a line of their own, wherever they stand in the class."""
    seed = '    seed: int = option(0, advanced=True, description="Where it begins.")\n    rows_per'
    site.install("mainstem-hello", HELLO.replace("    rows_per", seed, 1))
    shown = details("hello")
    assert shown.index("rows_per_second") < shown.index("seldom needed:") < shown.index("seed: ")


def test_only_plugins_that_a_document_names_are_imported(site):
    """Pass: a plan without the word leaves its module alone; listing does too."""
    site.install("mainstem-hello", HELLO)
    make_plan(document("rate"))
    assert "mainstem-hello 1.5" in listing()
    assert "mainstem_hello" not in sys.modules
    make_plan(document())
    assert "mainstem_hello" in sys.modules


def test_two_distributions_with_one_word_are_told_apart_by_name(site):
    """Pass: an error that names both and the way out, which works."""
    site.install("mainstem-hello", HELLO)
    site.install("other-hello", HELLO)
    with pytest.raises(DocumentError) as failure:
        make_plan(document())
    text = str(failure.value)
    assert "brought by mainstem-hello 1.5 and other-hello 1.5" in text
    assert "`use: mainstem-hello:hello` or `use: other-hello:hello`" in text
    assert failure.value.exit_code == 3
    assert make_plan(document("other-hello:hello")).nodes["greetings"].distribution == "other-hello"
    assert listing().count("in conflict") == 2


def test_a_class_may_be_named_by_its_place_and_is_imported_when_its_word_is_used(site):
    """Pass: a plan with one of two words imports the module of that one alone."""
    hook = "from mainstem import hookimpl\n\n@hookimpl\ndef mainstem_sources():\n    return "
    code = hook + '{"hello": "hello_class:Hello", "other": "other_class:Other"}\n'
    site.install("mainstem-hello", code, words="hello other")
    (site.folder / "hello_class.py").write_text(HELLO)
    (site.folder / "other_class.py").write_text("raise RuntimeError('imported')\n")
    assert make_plan(document()).nodes["greetings"].component.__class__.__name__ == "Hello"
    with pytest.raises(
        DocumentError, match=r"can't be imported for source 'other': RuntimeError: imported"
    ):
        make_plan(document("other"))


@pytest.mark.parametrize(
    ("code", "requires", "words"),
    [
        ("import nosuchmodule", "mainstem", "can't be imported .*No module named 'nosuchmodule'.*pip install"),
        ("1 / 0", "mainstem", "can't be imported .*ZeroDivisionError"),
        (HELLO, "mainstem>=99", "made for mainstem>=99, but mainstem .* is installed.*pip install --upgrade"),
        (HELLO.replace('{"hello"', '{"hullo"'), "mainstem", "returns no such word"),
        (HELLO.replace("def mainstem_sources", "def mainstem_fountains"), "mainstem", "a hook that this core"),
        (HELLO.replace('{"hello": Hello}', '{"hello": HelloOptions}'), "mainstem", "not a subclass of"),
        (HELLO.replace('return {"hello": Hello}', "raise KeyError(1)"), "mainstem", "fails when asked"),
        (HELLO.replace(": Hello}", ': "mainstem_hello:Hullo"}'), "mainstem", "can't be imported .*no attribute 'Hullo'"),
        (HELLO.replace(": Hello}", ': "mainstem_hullo:Hello"}'), "mainstem", "can't be imported .*'mainstem_hullo'"),
        (HELLO.replace(": Hello}", ': "mainstem_hello"}'), "mainstem", "can't be imported .*`package.module:Class`"),
    ],
)  # fmt: skip
def test_a_plugin_that_does_not_work_is_refused_in_words(site, code, requires, words):
    """Pass: exit code 3 and the cause for who names it; the listing and others go on."""
    site.install("mainstem-hello", code, requires=requires)
    with pytest.raises(DocumentError) as failure:
        make_plan(document())
    assert re.search(words, str(failure.value))
    assert failure.value.exit_code == 3
    assert "mainstem-hello 1.5" in listing()
    assert "broken: " in details("hello")
    make_plan(document("rate"))


FAILING = '''
import json
from mainstem import Options, Sink, Source, Typed, hookimpl, option
from pydantic import field_validator

class Nothing(Options):
    """None."""

class Unmade(Source):
    options: Nothing
    def __init__(self, options):
        raise KeyError("made")
    def shape(self): ...
    def load(self, ctx): ...

class Shapeless(Source):
    options: Nothing
    def shape(self):
        return 1 / 0
    def load(self, ctx): ...

class Unsaid(Source):
    options: Nothing
    @property
    def capabilities(self):
        return json.loads("{")
    def shape(self): ...
    def load(self, ctx): ...

class Strange(Options):
    """One that fails when it is looked at."""
    name: str = option("", description="A name.")

    @field_validator("name")
    @classmethod
    def _known(cls, value):
        return {}[value]

class Unread(Source):
    options: Strange
    def shape(self): ...
    def load(self, ctx): ...

class Untyped(Sink, Typed):
    options: Nothing
    def check_types(self, columns, shape):
        raise IndexError("types")
    def write(self, frame, batch): ...

@hookimpl
def mainstem_sources():
    return {"unmade": Unmade, "shapeless": Shapeless, "unsaid": Unsaid, "unread": Unread}

@hookimpl
def mainstem_sinks():
    return {"untyped": Untyped}
'''


def test_a_component_that_fails_is_a_problem_of_its_node(site):
    """Components that raise what nobody expects: made, in their options, asked for facts and a shape. Pass: each
    is told with its node, its cause and where in the plugin that was, beside what is wrong elsewhere; so is a
    sink that fails when all else is right, and then the exit code says that a plugin is broken."""
    words = ("unmade", "shapeless", "unsaid", "unread")
    site.install("mainstem-hello", FAILING)
    (site.folder / "mainstem_hello-1.5.dist-info" / "entry_points.txt").write_text(
        "\n".join(["[mainstem.sources]", *(f"{word} = mainstem_hello" for word in words)])
        + "\n[mainstem.sinks]\nuntyped = mainstem_hello\n"
    )
    sources = {word: {"use": word} for word in words}
    sources["unread"]["with"] = {"name": "hunter2"}
    sources["rows"] = {"use": "rate", "with": {"rows_per_second": -1}}
    sinks = {"out": {"use": "console", "from": "shapeless"}}
    with pytest.raises(DocumentError) as failure:
        make_plan({"pipeline": "test", "sources": sources, "sinks": sinks})
    told = {problem.key: problem.message for problem in failure.value.problems}
    assert told.pop("sources.rows.with.rows_per_second")
    causes = {
        "unmade": (12, "KeyError: 'made'"), "shapeless": (19, "ZeroDivisionError: division by zero"),
        "unsaid": (26, "JSONDecodeError: .*"), "unread": (37, "KeyError"),
    }  # fmt: skip
    assert told.keys() == {f"sources.{word}" for word in words}
    assert "hunter2" not in str(failure.value), "an option may be a secret"
    for word, (line, cause) in causes.items():
        where = rf"\(.*mainstem_hello\.py, line {line}\)"
        said = rf"{cause} {where}\. This is a bug of mainstem-hello\."
        assert re.fullmatch(said, told[f"sources.{word}"]), told
    sources = {"rows": {"use": "rate"}}
    sinks = {"out": {"use": "untyped", "from": "rows"}}
    with pytest.raises(DocumentError, match=r"sinks\.out: IndexError: types") as failure:
        make_plan({"pipeline": "test", "sources": sources, "sinks": sinks})
    assert failure.value.exit_code == 3


def test_a_missing_plugin_of_ours_is_told_with_its_install_line():
    """Pass: the exact command for a known word, the nearest word for an unknown one."""
    registry = Registry([w for w in Registry().words if w.distribution == "mainstem"])
    with pytest.raises(PluginError, match="Install it: pip install mainstem-operators-windows$"):
        registry.component("operator", "aggregate")
    with pytest.raises(PluginError, match="Did you mean 'decode'"):
        registry.component("operator", "decod")
    with pytest.raises(PluginError, match="'decode' is an operator"):
        registry.component("source", "decode")
    with pytest.raises(PluginError, match="no installed distribution 'nobody' brings"):
        registry.component("operator", "nobody:decode")


def test_a_document_that_is_wrong_elsewhere_too_ends_with_its_own_exit_code():
    """Pass: 3 if plugins alone are missing, 2 as soon as the document needs mending."""
    with pytest.raises(DocumentError) as failure:
        make_plan(document("nosuchword"))
    assert failure.value.exit_code == 3
    with pytest.raises(DocumentError) as failure:
        make_plan({**document("nosuchword"), "nosuchkey": 1})
    assert failure.value.exit_code == 2


def test_what_is_installed_while_a_process_runs_is_found(site):
    """Pass: a distribution that comes into a folder, and one that goes, between two looks."""
    site.install("mainstem-one", HELLO, words="one")
    assert {"one"} <= {word.name for word in Registry().words}
    site.install("mainstem-two", HELLO, words="two")
    assert {"one", "two"} <= {word.name for word in Registry().words}
    for file in site.folder.glob("mainstem_one-*.dist-info/*"):
        file.unlink()
    next(site.folder.glob("mainstem_one-*.dist-info")).rmdir()
    assert {word.name for word in Registry().words} & {"one", "two"} == {"two"}
