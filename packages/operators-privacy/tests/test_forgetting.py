"""Keys of subjects: made once, destroyed for good; values by them, exact, and unreadable afterwards."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem import DocumentError, PermanentError
from mainstem_operators_privacy.calls import Decrypting, Encrypting, store
from mainstem_operators_privacy.ciphers import Cipher, Master, SealError
from mainstem_operators_privacy.keys import KeyStore, stores_of
from mainstem_operators_privacy.options import KeyOptions
from mainstem_testkit.crashing import crash_at_every_point
from mainstem_testkit.server import free_port

MASTER = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
SCHEMA = "id INT, who BIGINT, name STRING, photo BINARY, born DATE, owes DECIMAL(9,2), old BOOLEAN"
PRIVATE = "name STRING, photo BINARY, born DATE, owes DECIMAL(9,2), old BOOLEAN"
NAMES = ["name", "photo", "born", "owes", "old"]


def options(url, **more):
    return KeyOptions.model_validate({"url": url, "master": MASTER, "give_up": "2 s", **more})


@pytest.fixture(params=["postgres", "mariadb", "sqlite"])
def url(request, tmp_path):
    """A database of each product."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/keys.db"
    return request.getfixturevalue(request.param).url


@pytest.fixture
def make(url):
    """Makes stores of keys, in one table of a test's own."""
    made = []

    def made_store(**more):
        table = f"keys_{id(made)}"
        made.append(KeyStore(options(url, table=table, **more)))
        return made[-1]

    yield made_store
    for each in made:
        each._table.drop(each._engine, checkfirst=True)
        each.close()


# -- values ---------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.binary(min_size=64, max_size=64))
def test_a_value_comes_back_and_has_one_text(value, key):
    """Pass: any bytes, empty ones too, whoever has the key."""
    text = Cipher(key).seal(value, b"string")
    assert Cipher(key).unseal(text, b"string") == value
    assert Cipher(key).seal(value, b"string") == text


@given(st.binary(max_size=40), st.integers(0, 10_000), st.integers(1, 63))
def test_what_was_changed_is_refused(value, place, by):
    """Pass: any character of it that stands for something else, and a text that was cut."""
    cipher = Cipher(bytes(64))
    text = cipher.seal(value, b"string")
    marks = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    body = text.removeprefix(b"m1.").rstrip(b"=")
    place %= len(body)
    at = (marks.index(body[place]) + by) % 64
    other = marks[at : at + 1]
    with pytest.raises(SealError, match="it has changed"):
        cipher.unseal(text.replace(body, body[:place] + other + body[place + 1 :]), b"string")
    with pytest.raises(SealError, match="it has changed"):
        cipher.unseal(text[:-4], b"string")


def test_what_is_another_s_is_refused():
    """Pass: another key, another type, and what was never encrypted."""
    text = Cipher(bytes(64)).seal(b"7", b"int")
    with pytest.raises(SealError, match="decrypt as INT"):
        Cipher(bytes(63) + b"\1").unseal(text, b"int")
    with pytest.raises(SealError, match="decrypt as STRING"):
        Cipher(bytes(64)).unseal(text, b"string")
    for plain in (b"", b"Anna", b"m1", b"m1.", b"m1.\xe9", b"m1.AAAA"):
        with pytest.raises(SealError):
            Cipher(bytes(64)).unseal(plain, b"int")


def test_bytes_that_are_no_text_end_nothing(tmp_path):
    """Pass: as subject, as value and as encrypted text; the rows beside it are as ever."""
    keys = options(f"sqlite:///{tmp_path}/keys.db")
    whose = pa.array([b"\xff\xfe", b"a", b"a"], pa.binary())
    sealed = Encrypting(keys, ["v"], ["string"])(
        whose, pa.array([b"\xff", b"x", None], pa.binary())
    )
    texts = [row["values"]["c0"] for row in sealed.to_pylist()]
    back = Decrypting(keys, ["v"], ["string"])(whose, pa.array(texts, pa.binary())).to_pylist()
    assert [row["values"]["c0"] for row in back] == [b"\xff", b"x", None]
    assert [row["reason"] for row in back] == [None, None, None]
    texts[0] = b"m1.\xff"
    bad = Decrypting(keys, ["v"], ["string"])(whose, pa.array(texts, pa.binary())).to_pylist()
    assert "it has changed" in bad[0]["reason"]
    assert bad[1]["values"]["c0"] == b"x"
    store(keys).destroy([b"\xff\xfe"])
    assert store(keys).ciphers([b"\xff\xfe"], make=False) == {b"\xff\xfe": None}


# -- keys -----------------------------------------------------------------------------------------


def test_a_key_is_made_once(make):
    """Pass: of many who see the same subjects first, in any order, all get the same keys."""
    subjects = [b"subject %d" % n for n in range(700)]
    texts, begin = [], threading.Barrier(4)

    def see(turn):
        store = make()
        begin.wait()
        ciphers = store.ciphers(subjects[::-1] if turn % 2 else subjects, make=True)
        texts.append([ciphers[subject].seal(b"x", b"string") for subject in subjects])

    threads = [threading.Thread(target=see, args=(turn,)) for turn in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(texts) == 4
    assert texts == [texts[0]] * 4
    assert len(set(texts[0])) == 700


def test_a_forgotten_subject_has_no_key_for_ever(make):
    """Pass: whether it had one before or not; others keep theirs; a second time changes nothing."""
    store = make()
    before = store.ciphers([b"a", b"b"], make=True)
    assert store.destroy([b"a", b"new", b"a"]) == 1
    assert store.destroy([b"a", b"new"]) == 0
    after = make().ciphers([b"a", b"b", b"new"], make=True)
    assert (after[b"a"], after[b"new"]) == (None, None)
    assert after[b"b"].seal(b"x", b"int") == before[b"b"].seal(b"x", b"int")
    assert make().ciphers([b"a", b"nobody"], make=False) == {b"a": None}


def test_nobody_is_named_and_no_key_is_readable(tmp_path):
    """Pass: the database has neither a subject's name nor the bytes of a key; and not those of one destroyed."""
    file = tmp_path / "keys.db"
    store = KeyStore(options(f"sqlite:///{file}"))
    store.ciphers([b"anna@example.org", b"berta@example.org"], make=True)
    with closing(sqlite3.connect(file)) as database:
        ((name, sealed),) = database.execute(
            "SELECT name, sealed FROM mainstem_subject_keys WHERE name = ?",
            [Master(bytes(range(32))).name(b"anna@example.org")],
        )
    key = Master(bytes(range(32))).key(name, sealed)
    store.destroy([b"anna@example.org"])
    with closing(sqlite3.connect(file)) as database:
        found = list(database.execute("SELECT * FROM mainstem_subject_keys"))
    assert len(found) == 3  # and whose table it is
    assert "example" not in str(found)
    assert key not in [part for row in found for part in row]
    assert b"example" not in file.read_bytes()
    assert sealed not in [part for row in found for part in row]


def test_another_master_is_told(tmp_path):
    """Pass: by all that would be done with it, for it would know nobody: not who is forgotten either."""
    file = f"sqlite:///{tmp_path}/keys.db"
    KeyStore(options(file)).ciphers([b"a"], make=True)
    for work in (
        lambda store: store.ciphers([b"a"], make=True),
        lambda store: store.ciphers([b"a"], make=False),
        lambda store: store.destroy([b"a"]),
    ):
        with pytest.raises(PermanentError, match="is of another `master`"):
            work(KeyStore(options(file, master=OTHER)))
    assert KeyStore(options(file)).ciphers([b"a"], make=False)[b"a"] is not None
    name = Master(bytes(range(32))).name(b"b")
    with closing(sqlite3.connect(tmp_path / "keys.db")) as database, database:
        database.execute("UPDATE mainstem_subject_keys SET name = ? WHERE name <> 'master'", [name])
    with pytest.raises(PermanentError, match="encrypted with another"):
        KeyStore(options(file)).ciphers([b"b"], make=False)


def test_a_database_that_is_away_is_told():
    """Pass: after `give_up`, with its place and without the password."""
    gone = f"postgresql://u:S3CRET@127.0.0.1:{free_port()}/db"
    with pytest.raises(PermanentError, match=r"127\.0\.0\.1.*give_up") as told:
        KeyStore(options(gone, give_up="0.3 s")).ciphers([b"a"], make=True)
    assert "S3CRET" not in str(told.value)


def test_stores_are_told_apart():
    """Pass: by database, table and master."""
    same = [options("sqlite:///a.db"), options("sqlite:///a.db", give_up="9 s")]
    others = [
        options("sqlite:///b.db"),
        options("sqlite:///a.db", table="t"),
        options("sqlite:///a.db", master=OTHER),
    ]
    assert list(stores_of([*same, *others])) == [same[0], *others]


# -- documents ------------------------------------------------------------------------------------


def document(pipeline, **more):
    def told(**given_):
        return {"subject": "who", "keys": {"url": "sqlite:///keys.db", "master": MASTER}, **given_}

    rows = {"path": "./in", "format": "jsonlines", "schema": SCHEMA}
    pipeline.document(
        sources={
            "people": {"use": "files", "with": rows},
            "asked": {"use": "files", "with": {**rows, "path": "./asked", "schema": "who BIGINT"}},
        },
        operators={
            "private": {"use": "encrypt", "from": "people", "with": told(columns=NAMES)},
            "again": {"use": "decrypt", "from": "private", "with": told(columns=PRIVATE)},
        },
        sinks={
            "sealed": pipeline.sink("sealed", "private"),
            "plain": pipeline.sink("plain", "again"),
            "bad": pipeline.sink("bad", ["private.rejected", "again.rejected"]),
            "unknown": pipeline.sink("unknown", "gone.rejected"),
            "gone": {"use": "forget", "from": "asked", "with": told()},
        },
        **more,
    )


def ask(pipeline, name, rows):
    folder = pipeline.folder / "asked"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def lines(begin, end):
    return [
        {"id": n, "who": n % 3, "name": f"é{n}", "photo": base64.b64encode(b"\0%d" % n).decode(),
         "born": f"2000-01-{n % 28 + 1:02}", "owes": n / 4, "old": n % 2 == 0}
        for n in range(begin, end)
    ]  # fmt: skip


@pytest.mark.in_turn
def test_values_are_sealed_come_back_and_are_forgotten(pipeline):
    """Pass: each type as it was; once forgotten null, in old rows and new ones; no subject, and what is none
    of theirs, refused without what is private.
    """
    document(pipeline)
    first = lines(0, 9)
    pipeline.feed("1.jsonl", [*first, {"id": 98, "name": "Secret"}, {"id": 99, "who": None}])
    ask(pipeline, "0", [{"who": 77}])
    pipeline.run()
    shown = {row["id"]: row for row in pipeline.rows("plain")}
    plain = {row["id"]: row for row in first}
    assert {n: {k: row[k] for k in ("who", "name", "photo", "born", "owes", "old")} for n, row in
            shown.items() if n < 99} == {
        n: {k: row[k] for k in ("who", "name", "photo", "born", "owes", "old")} for n, row in plain.items()
    }  # fmt: skip
    assert "name" not in shown[99]
    sealed = pipeline.rows("sealed")
    assert all(row[name].startswith("m1.") for row in sealed if row["id"] < 9 for name in NAMES)
    (bad,) = pipeline.rows("bad")
    assert "its subject is null" in bad["reason"]
    assert "Secret" not in base64.b64decode(bad["payload"]).decode()
    ask(pipeline, "1", [{"who": 1}, {"who": None}])
    pipeline.run()
    pipeline.feed("2.jsonl", lines(9, 12))
    pipeline.run()
    new = {row["id"]: row.get("name") for row in pipeline.rows("plain") if row["id"] in (9, 10, 11)}
    assert new == {9: "é9", 10: None, 11: "é11"}
    assert [row.get("name") for row in pipeline.rows("sealed") if row["id"] == 10] == [None]
    (unknown,) = pipeline.rows("unknown")
    assert "whom it is about" in unknown["reason"]
    # The old rows can't be read any more, by whoever has the store and the master.
    store = KeyStore(options(f"sqlite:///{pipeline.folder}/keys.db"))
    assert store.ciphers([b"0", b"1"], make=False)[b"1"] is None


@pytest.mark.in_turn
def test_what_does_not_decrypt_is_refused_as_it_was(pipeline):
    """Pass: with its encrypted columns, so that it can be sent again once the mistake is mended."""
    schema = "id INT, who STRING, name STRING"
    keys = {"url": "sqlite:///keys.db", "master": MASTER}
    given_ = {"subject": "who", "columns": "name STRING", "keys": keys}
    rows = {"path": "./in", "format": "jsonlines", "schema": schema}
    pipeline.document(
        sources={"sealed": {"use": "files", "with": rows}},
        operators={"plain": {"use": "decrypt", "from": "sealed", "with": given_}},
        sinks={
            "out": pipeline.sink("out", "plain"),
            "bad": pipeline.sink("bad", "plain.rejected"),
        },
    )
    place = f"sqlite:///{pipeline.folder}/keys.db"
    text = (
        KeyStore(options(place)).ciphers([b"a"], make=True)[b"a"].seal(b"Anna", b"string").decode()
    )
    pipeline.feed(
        "1.jsonl",
        [
            {"id": 1, "who": "a", "name": text},
            {"id": 2, "who": "a", "name": "Anna"},
            {"id": 3, "who": "nobody", "name": text},
        ],
    )
    pipeline.run()
    assert [(row["id"], row["name"]) for row in pipeline.rows("out")] == [(1, "Anna")]
    bad = {
        json.loads(base64.b64decode(r["payload"]))["name"]: r["reason"]
        for r in pipeline.rows("bad")
    }
    assert "not encrypted" in bad["Anna"]
    assert "never had a key" in bad[text]


@pytest.mark.in_turn
def test_nothing_is_lost_where_it_dies(pipeline):
    """Pass: at each step of the keys: each row once, readable by the keys that are there; each request done."""
    document(pipeline)
    pipeline.feed("1.jsonl", lines(0, 6))
    ask(pipeline, "0", [{"who": 77}, {"who": 78}])

    def oracle(copy):
        store = KeyStore(options(f"sqlite:///{copy.folder}/keys.db"))
        ciphers = store.ciphers([b"0", b"1", b"2", b"77", b"78"], make=False)
        store.close()
        assert ciphers[b"77"] is None
        assert ciphers[b"78"] is None
        rows = sorted(copy.rows("sealed"), key=lambda row: row["id"])
        read = [
            (
                row["id"],
                ciphers[b"%d" % row["who"]].unseal(row["name"].encode(), b"string").decode(),
            )
            for row in rows
        ]
        assert read == [(n, f"é{n}") for n in range(6)]
        assert sorted(row["name"] for row in copy.rows("plain")) == [f"é{n}" for n in range(6)]

    passed = crash_at_every_point(
        pipeline,
        oracle,
        points=lambda found: [point for point in found if point.startswith("keys.")],
    )
    assert sorted(passed) == ["keys.after-commit", "keys.after-make", "keys.before-commit"]


def forget(pipeline, *subjects, how="--yes"):
    command = [sys.executable, "-m", "mainstem", "forget", str(pipeline.file), how, *subjects]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.in_turn
def test_the_command_destroys_keys(pipeline):
    """Pass: of each store once; who had none is told; a document without keys too."""
    document(pipeline)
    store = KeyStore(options(f"sqlite:///{pipeline.folder}/keys.db"))
    store.ciphers([b"4711"], make=True)
    told = forget(pipeline, "4711", "4712", how="--dry-run")
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip().endswith(
        "the keys of 1 of 2 subjects are destroyed; the others have none, and get none any more"
    )
    assert (
        forget(pipeline, "4711", how="--set=trigger.available_now=true").returncode != 0
    )  # nobody answers
    assert store.ciphers([b"4711"], make=False)[b"4711"] is not None
    told = forget(pipeline, "4711", "4712")
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip().endswith("keys.db, mainstem_subject_keys: 1 of 2 keys destroyed")
    assert MASTER not in told.stdout + told.stderr
    assert store.ciphers([b"4711", b"4712"], make=True) == {b"4711": None, b"4712": None}
    for wrong, why in (("", "not empty"), (os.fsdecode(b"\xff"), "text of UTF-8")):
        told = forget(pipeline, wrong)
        assert told.returncode == 2
        assert why in told.stderr
    text = pipeline.file.read_text()  # a second store, which can't be used
    assert text.count("mainstem_subject") == 0
    changed = text.replace("sqlite:///keys.db", "sqlite:///nowhere/keys.db", 1)
    pipeline.file.write_text(changed)
    told = forget(pipeline, "4713")
    assert told.returncode == 1
    assert "nowhere/keys.db: unable to open" in told.stderr
    assert store.ciphers([b"4713"], make=True) == {b"4713": None}  # the other was asked
    pipeline.document(
        sources={"r": {"use": "rate"}}, operators={}, sinks={"o": pipeline.sink("o", "r")}
    )
    told = forget(pipeline, "4711")
    assert told.returncode == 1
    assert "no keys to destroy" in told.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subject": "nobody"}, "nobody"),
        ({"subject": "at"}, "can't tell a subject"),
        ({"columns": ["who"]}, "says whose a row is"),
        ({"columns": ["at"]}, "can't be encrypted"),
        ({"columns": ["name", "NAME"]}, "named twice"),
        ({"keys": {"url": "sqlite:///k.db", "master": "c2hvcnQ="}}, "32 bytes in base64"),
        ({"keys": {"url": "sqlite:///k.db"}}, "master"),
    ],
)
def test_what_can_t_be_is_told_at_once(pipeline, change, words):
    """Pass: when the document is planned, without the secret."""
    given_ = {
        "subject": "who",
        "columns": ["name"],
        "keys": {"url": "sqlite:///k.db", "master": MASTER},
    }
    rows = {"path": "./in", "format": "jsonlines", "schema": "who INT, name STRING, at TIMESTAMP"}
    pipeline.document(
        sources={"people": {"use": "files", "with": rows}},
        operators={"private": {"use": "encrypt", "from": "people", "with": {**given_, **change}}},
        sinks={"out": pipeline.sink("out", "private")},
    )
    with pytest.raises(DocumentError) as told:
        pipeline.plan()
    assert words in str(told.value)
    assert "c2hvcnQ=" not in str(told.value)


def test_keys_of_a_table_stay_as_they_are(pipeline):
    """Pass: a key, a sequence and an event time can't be encrypted; other columns of a table can."""
    rows = {"path": "./in", "format": "jsonlines", "schema": "who INT, v BIGINT, name STRING"}
    keys = {"url": "sqlite:///k.db", "master": MASTER}
    for columns, words in ((["v"], "has the sequence"), (["name"], "")):
        pipeline.document(
            sources={"people": {"use": "files", "with": rows}},
            operators={
                "people_now": {
                    "use": "changelog", "from": "people", "with": {"key": ["who"], "sequence": "v"},
                },
                "private": {
                    "use": "encrypt", "from": "people_now",
                    "with": {"subject": "who", "columns": columns, "keys": keys},
                },
            },
            sinks={"out": pipeline.sink("out", "private")},
        )  # fmt: skip
        if words:
            with pytest.raises(DocumentError, match=words):
                pipeline.plan()
        else:
            pipeline.plan()
