"""The lookup that docs/writing-a-plugin.md prints, run as it stands there, and what the library adds."""

from __future__ import annotations

import pickle
import re
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from mainstem import OptionError, PermanentError, TransientError
from mainstem.columns import read_columns
from mainstem_lookup import MISSING, Answer, Lookup, LookupOptions
from mainstem_lookup.asking import Asker, Asking, Cache
from mainstem_testkit import PipelineFolder, install

PAGE = (Path(__file__).parents[3] / "docs" / "writing-a-plugin.md").read_text()
SECTION = PAGE.partition("## A lookup")[2].partition("\n## ")[0]
(MODULE,) = re.findall(r"^```python\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
HOOK = """
from mainstem import hookimpl

@hookimpl
def mainstem_operators():
    return {"place_lookup": PlaceLookup}
"""


@pytest.mark.in_turn
def test_the_page_adds_places(spark, tmp_path, monkeypatch):
    (tmp_path / "place_lookup_page.py").write_text(MODULE + HOOK)
    monkeypatch.syspath_prepend(str(tmp_path))
    install(
        monkeypatch, tmp_path, "mainstem-places", operators={"place_lookup": "place_lookup_page"}
    )
    import place_lookup_page
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(place_lookup_page)  # tasks have another path
    pipeline = PipelineFolder(tmp_path)
    given = {"by": "code", "schema": "place STRING", "cache_for": "1 hour"}
    decode = {"format": "json", "schema": "code STRING"}
    pipeline.document(
        operators={
            "rows": {"use": "decode", "from": "lines", "with": decode},
            "known": {"use": "place_lookup", "from": "rows", "with": given},
        },
        sinks={"out": pipeline.sink("out", "known"), "bad": pipeline.sink("bad", "known.rejected")},
    )
    pipeline.feed("a", [{"code": code} for code in ("8001", "3011", "0000", "x1", "8001")])
    pipeline.run()
    sys.modules.pop("place_lookup_page")
    assert sorted((row["code"], row.get("place")) for row in pipeline.rows("out")) == [
        ("0000", None),
        ("3011", "Bern"),
        ("8001", "Zürich"),
        ("8001", "Zürich"),
    ]
    assert [row["reason"] for row in pipeline.rows("bad")] == ["a postcode has digits alone"]


class Told(Lookup):
    """Answers as a test says; counts what it is asked."""

    def __init__(self, options, keys, columns):
        super().__init__(options, keys, columns)
        self.lives = options.far
        self.open = False

    @property
    def most(self):
        return self.lives.most

    def connect(self):
        self.lives.connects += 1
        self.open = True

    def ask(self, keys):
        assert self.open
        return self.lives.answer(list(keys))

    def close(self):
        assert self.open
        self.open = False
        self.lives.closes += 1


class Far:
    def __init__(self, most=1):
        self.most = most
        self.connects = self.closes = 0
        self.asked = []
        self.failures = []
        self._lock = threading.Lock()

    def answer(self, keys):
        with self._lock:
            self.asked.append(keys)
            failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return [Answer((f"n{key}", key)) for (key,) in keys]


def asker(far, **more):
    options = LookupOptions.model_validate({"schema": "name STRING, n INT", **more})
    asking = Asking(Told, options, read_columns("k INT"), options.table_schema, "node")
    object.__setattr__(options, "far", far)
    return Asker(asking)


def test_rows_get_the_answers_of_their_keys():
    far = Far(most=3)
    found = asker(far, requests=1)([pa.array([1, 2, 1, None, 3, 4], pa.int32())])
    names = [row["values"]["name"] for row in found.to_pylist()]
    assert names == ["n1", "n2", "n1", None, "n3", "n4"]
    assert [row["found"] for row in found.to_pylist()] == [True, True, True, False, True, True]
    assert sorted(map(len, far.asked)) == [1, 3]
    assert far.connects == 1


def test_tasks_of_a_process_that_ask_the_same_share_connections_and_answers():
    """Pass: each task gets a copy; one that asks otherwise, or for another node, shares nothing."""

    def sent(node="node", **more):
        options = LookupOptions.model_validate({"schema": "name STRING", **more})
        asking = Asking(Told, options, read_columns("k INT"), options.table_schema, node)
        return pickle.loads(pickle.dumps(asking)).asker()

    assert sent() is sent()
    assert sent(requests=3) is not sent()
    assert sent("other") is not sent()


def test_nothing_is_asked_of_nobody():
    far = Far()
    assert asker(far)([pa.array([], pa.int32())]).to_pylist() == []
    assert asker(far)([pa.array([None], pa.int32())])[0].as_py()["found"] is False
    assert far.asked == []


def test_a_failure_that_passes_is_asked_again_over_a_new_connection():
    far = Far()
    far.failures = [TransientError("away"), TransientError("away")]
    assert asker(far).answers([(1,)]) == {(1,): Answer(("n1", 1))}
    assert (far.connects, far.closes, len(far.asked)) == (3, 2, 3)


def test_one_that_does_not_pass_fails_and_leaves_the_others():
    far = Far()
    far.failures = [PermanentError("no such table")]
    with pytest.raises(PermanentError, match="^node: no such table$"):
        asker(far, requests=1).answers([(n,) for n in range(100)])
    assert len(far.asked) < 100


def test_a_fault_of_the_lookup_is_no_answer():
    far = Far()
    far.failures = [KeyError("x")]
    with pytest.raises(KeyError):
        asker(far).answers([(1,)])
    assert far.closes == 1


def test_the_oldest_answers_go_first():
    kept = Cache(2, 60)
    for key in range(3):
        kept.put((key,), MISSING)
    assert [kept.get((key,)) for key in range(3)] == [None, MISSING, MISSING]
    brief = Cache(2, 0.05)
    brief.put((1,), MISSING)
    assert brief.get((1,)) is MISSING
    time.sleep(0.06)
    assert brief.get((1,)) is None
    never = Cache(2, 0)
    never.put((1,), MISSING)
    assert never.get((1,)) is None


def test_a_document_is_told_what_is_wrong():
    from mainstem import Events, Inputs

    namespace = {}
    exec(MODULE, namespace)

    def shape(rows="code STRING", **more):
        given = {"by": "code", "schema": "place STRING", **more}
        options = namespace["PlaceOptions"].model_validate(given)
        return namespace["PlaceLookup"](options).shape(Inputs({"input": Events(rows)}))

    assert str(shape()) == "events(code STRING, place STRING)"
    for rows, more, words in (
        ("code STRING, place STRING", {}, "has a column place already"),
        ("code DOUBLE", {}, "can't be a key"),
        ("other STRING", {}, "there is no column 'code'"),
        ("code STRING", {"schema": "place VARIANT"}, "can't be looked up"),
    ):
        with pytest.raises(OptionError, match=words):
            shape(rows, **more)
