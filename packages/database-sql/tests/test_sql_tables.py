"""The tables of the sink `sql`: made with the right types, or held against what will be written."""

from __future__ import annotations

import struct

import pytest
from mainstem import DocumentError, MachineError, OptionError, PipelineError
from mainstem_database import connecting
from sql_writing import changes

ALL = {
    "b": "boolean", "i1": "tinyint", "i2": "smallint", "i4": "int", "i8": "bigint", "f": "float",
    "d": "double", "n": "decimal(12,3)", "s": "string", "y": "binary", "da": "date",
    "t": "timestamp", "tn": "timestamp_ntz",
}  # fmt: skip
DDL = ", ".join(f"{name} {kind}" for name, kind in ALL.items())
MADE = {
    "postgres": {
        "b": "boolean", "i1": "smallint", "i2": "smallint", "i4": "integer", "i8": "bigint", "f": "real",
        "d": "double precision", "n": "numeric(12,3)", "s": "text", "y": "bytea", "da": "date",
        "t": "timestamp with time zone", "tn": "timestamp without time zone",
    },
    "mariadb": {
        "b": "tinyint(1)", "i1": "tinyint(4)", "i2": "smallint(6)", "i4": "int(11)", "i8": "bigint(20)",
        "f": "double", "d": "double", "n": "decimal(12,3)", "s": "longtext", "y": "longblob",
        "da": "date", "t": "datetime(6)", "tn": "datetime(6)",
    },
    "sqlite": {
        "b": "BOOLEAN", "i1": "SMALLINT", "i2": "SMALLINT", "i4": "INTEGER", "i8": "BIGINT", "f": "DOUBLE",
        "d": "DOUBLE", "n": "TEXT", "s": "TEXT", "y": "BLOB", "da": "TEXT", "t": "TEXT", "tn": "TEXT",
    },
}  # fmt: skip


def columns(place, table=None):
    """Return the columns of a table by name: type, and whether it can be null."""
    table = table or place.name
    if place.product == "sqlite":
        found = place.ask(f'PRAGMA table_info("{table}")')
        return {name: (kind, not needed) for _, name, kind, needed, *_ in found}
    if place.product == "postgres":
        kind = "format_type(a.atttypid, a.atttypmod)"
        found = place.ask(
            f"SELECT a.attname, {kind}, NOT a.attnotnull FROM pg_attribute AS a "
            "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped",
            place.mark(table),
        )
    else:
        found = place.ask(
            "SELECT column_name, column_type, is_nullable = 'YES' FROM information_schema.columns "
            "WHERE table_name = %s",
            table,
        )
    return {name: (kind, bool(null)) for name, kind, null in found}


def indexed(place, table=None):
    """Return the columns of each unique index of a table."""
    table = table or place.name
    if place.product == "sqlite":
        found = [
            name for _, name, unique, *_ in place.ask(f'PRAGMA index_list("{table}")') if unique
        ]
        return [
            [column for *_, column in place.ask(f'PRAGMA index_info("{name}")')] for name in found
        ]
    if place.product == "postgres":
        found = place.ask(
            "SELECT indexdef FROM pg_indexes WHERE tablename = %s AND indexdef LIKE '%%UNIQUE%%'",
            table,
        )
        return [text.rpartition("(")[2].rstrip(")").split(", ") for (text,) in found]
    found = place.ask(
        "SELECT index_name, column_name FROM information_schema.statistics "
        "WHERE table_name = %s AND non_unique = 0 ORDER BY seq_in_index",
        table,
    )
    names = dict.fromkeys(name for name, _ in found)
    return [[column for name, column in found if name == index] for index in names]


def test_a_table_of_events_is_made_with_the_products_types(place):
    """Pass: each column has its type and can be null; there is no index and no other column."""
    place.write([], DDL)
    made = MADE[place.product]
    assert columns(place) == {name: (kind, True) for name, kind in made.items()}
    assert indexed(place) == []


def test_a_table_of_identified_events_is_made_with_a_unique_id(place):
    """Pass: `_id` in bytes, not null, and a unique index on it alone."""
    place.write([], "id BIGINT", "idempotent")
    kind = {"postgres": "bytea", "mariadb": "varbinary(255)", "sqlite": "BLOB"}[place.product]
    assert columns(place)["_id"] == (kind, False)
    assert indexed(place) == [["_id"]]


def test_a_table_of_changes_is_made_with_its_key(place):
    """Pass: the primary key is the stream's; beside it the table of deletes has key, version and time."""
    shape = changes("k STRING, id BIGINT, v TIMESTAMP", ["k", "id"])
    place.write([], shape)
    text = {"postgres": "text", "mariadb": "varchar(255)", "sqlite": "TEXT"}[place.product]
    made = {name: MADE[place.product][name] for name in ("i8", "t")}
    found = columns(place)
    assert found["k"] == (text, False)
    assert found["id"] == (made["i8"], False)
    assert found["_commit_version"] == (made["t"], True)
    assert indexed(place) == [["k", "id"]]
    assert columns(place, f"{place.name}__deleted") == {
        "k": (text, False),
        "id": (made["i8"], False),
        "_commit_version": (made["t"], False),
        "_deleted_at": (made["i8"], False),
    }
    assert indexed(place, f"{place.name}__deleted") == [["k", "id"]]


@pytest.mark.in_turn
def test_what_is_made_has_transactions_though_the_server_would_make_it_without(place_in):
    """Pass: with Aria, which undoes nothing, as MariaDB's engine for new tables, all are InnoDB's."""
    place = place_in("mariadb")
    place.ask("SET GLOBAL default_storage_engine = 'Aria'")
    try:
        shape, sink = changes("id BIGINT, v BIGINT", ["id"]), place.sink()
        batch = place.batch(shape)
        staged = sink.stage(place.frame([{"id": 1, "v": 1}], shape), batch)
        found = place.ask(
            "SELECT engine FROM information_schema.tables WHERE table_name IN (%s, %s, %s, %s, %s)",
            *(place.name, f"{place.name}__deleted", place.ledger),
            *(staged.staging.put, staged.staging.gone),
        )
        assert [engine for (engine,) in found] == ["InnoDB"] * 5
    finally:
        place.ask("SET GLOBAL default_storage_engine = 'InnoDB'")


# -- tables that are there --------------------------------------------------------------------

FITTING = {
    "postgres": "b BOOLEAN, i1 SMALLINT, i2 INT, i4 NUMERIC(10), i8 NUMERIC, f DOUBLE PRECISION, d FLOAT, "
    "n NUMERIC(20, 5), s VARCHAR(10), y BYTEA, da DATE, t TIMESTAMPTZ, tn TIMESTAMP(6), "
    "serial SERIAL, own INT GENERATED ALWAYS AS IDENTITY, sum INT GENERATED ALWAYS AS (1) STORED, "
    "given INT NOT NULL DEFAULT 1",
    "mariadb": "b TINYINT(1), i1 SMALLINT, i2 MEDIUMINT, i4 BIGINT, i8 DECIMAL(20), f FLOAT, d DOUBLE, "
    "n DECIMAL(20, 5), s ENUM('a', 'x'), y VARBINARY(10), da DATE, t TIMESTAMP(6), tn DATETIME(6), "
    "serial INT AUTO_INCREMENT PRIMARY KEY, sum INT AS (1), given INT NOT NULL DEFAULT 1",
    "sqlite": "b INT, i1, i2 ANY, i4 REAL, i8 NUMERIC, f FLOAT, d, n VARCHAR(10), s, y TEXT, da DATETIME, "
    "t VARCHAR, tn, serial INTEGER PRIMARY KEY NOT NULL, given INT NOT NULL DEFAULT 1",
}
ROW = {"b": True, "i1": 1, "i2": 2, "i4": 3, "i8": 4, "s": "x", "y": b"y"}


@pytest.mark.parametrize("how", ["microbatch", "staged"])
def test_a_table_that_fits_is_used_as_it_is(place, how):
    """Pass: of other types that hold the values, with columns that fill themselves; it is not changed."""
    place.ask(f"CREATE TABLE {{t}} ({FITTING[place.product]})")
    before = columns(place)
    for number, create in enumerate((True, False)):
        sink = place.sink(create=create)
        assert place.write([ROW], DDL, how, sink=sink, number=number) is None
    assert columns(place) == before
    assert place.rows("b, i1, i2, i4, i8, s, given") == [(True, 1, 2, 3, 4, "x", 1)] * 2


MISFITS = {
    "postgres": (
        "b INT, i1 BOOLEAN, i2 TEXT, i4 SMALLINT, i8 INT, f NUMERIC, d REAL, n NUMERIC(12, 2), s INT, "
        "y TEXT, da TIMESTAMP, t TIMESTAMP, tn TIMESTAMP(3)"
    ),
    "mariadb": (
        "b INT, i1 TEXT, i2 TINYINT, i4 MEDIUMTEXT, i8 INT, f DECIMAL(5), d FLOAT, n DECIMAL(11, 3), "
        "s DOUBLE, y TEXT, da DATETIME, t DATETIME, tn DATE"
    ),
    "sqlite": (
        "b TEXT, i1 TEXT, i2 TEXT, i4 TEXT, i8 TEXT, f TEXT, d TEXT, n REAL, s DOUBLE, y BLOB, da INT, t INT, "
        "tn NUMERIC"
    ),
}


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("postgres", "DATE"), ("postgres", "TIMESTAMP"), ("postgres", "TIME"), ("postgres", "MONEY"),
        ("postgres", "INTERVAL"), ("postgres", "BIT(3)"), ("mariadb", "DATE"), ("mariadb", "DATETIME"),
        ("mariadb", "TIME"), ("mariadb", "YEAR"), ("mariadb", "SET('a', 'b')"),
    ],
)  # fmt: skip
@pytest.mark.in_turn
def test_a_column_that_makes_another_value_of_a_text_is_refused(place_in, product, kind):
    """Pass: a zone, a fraction or the time itself would be lost without a word."""
    place = place_in(product)
    place.ask(f"CREATE TABLE {{t}} (s {kind})")
    with pytest.raises(OptionError, match="which can't hold string"):
        place.write([{"s": "2024-01-01T10:00:00+05:00"}], "s STRING", "microbatch")


def test_all_that_does_not_fit_is_told_at_once(place):
    """Pass: one error of the option `table` names every column that is missing, of a wrong type, or
    needed and not written, and the index that the key lacks; and nothing was changed."""
    made = MISFITS[place.product]
    wrong = {part.split()[0] for part in made.split(", ") if not part[0].isdigit()}
    wrong -= {"y"} if place.product == "sqlite" else set()  # it keeps bytes anywhere
    place.ask(f"CREATE TABLE {{t}} (needed INT NOT NULL, {made})")
    before = columns(place)
    shape = changes(f"{DDL}, more INT, id INT, v INT", ["i8"])
    with pytest.raises(OptionError) as error:
        place.write([], shape)
    text = error.value.message
    assert error.value.option == "table"
    assert "add_columns" in error.value.hint
    for name in wrong:
        assert f"column {name} is " in text, name
    for name in ("more", "id", "v", "_commit_version"):
        assert f"no column {name};" in text
    assert "column needed is NOT NULL without a default, and nothing is written" in text
    assert "no unique index on just i8" in text
    assert text.count(";") == len(wrong) + 5
    assert columns(place) == before
    with pytest.raises(OptionError) as error:
        place.write([], shape, sink=place.sink(add_columns=True))
    assert "no column" not in error.value.message
    assert columns(place) == before


@pytest.mark.parametrize(
    ("made", "fits"),
    [
        ("id BIGINT, PRIMARY KEY (id)", True),
        ("id BIGINT NOT NULL, UNIQUE (id)", True),
        ("id BIGINT, v BIGINT, PRIMARY KEY (id, v)", False),
        ("id BIGINT, v BIGINT NOT NULL, PRIMARY KEY (v), UNIQUE (id)", True),
    ],
)
def test_the_key_needs_an_index_of_its_own(place, made, fits):
    """Pass: a unique index on just the key's columns will do, one that has more columns will not."""
    rest = "" if "v BIGINT" in made else ", v BIGINT"
    head, _, constraint = (
        made.partition(", PRIMARY") if "PRIMARY" in made else made.partition(", UNI")
    )
    word = ", PRIMARY" if "PRIMARY" in made else ", UNI"
    place.ask(f"CREATE TABLE {{t}} ({head}{rest}, _commit_version BIGINT{word}{constraint})")
    shape = changes("id BIGINT, v BIGINT", ["id"])
    if fits:
        place.write([{"id": 1, "v": 1}], shape)
        place.write([{"id": 1, "v": 2}], shape, number=1)
        assert place.rows("id, v") == [(1, 2)]
    else:
        with pytest.raises(OptionError, match="no unique index on just id"):
            place.write([], shape)


PARTS = {
    "postgres": ("name TEXT", "CREATE UNIQUE INDEX {i} ON {t} (name) WHERE v > 0"),
    "mariadb": ("name VARCHAR(99)", "CREATE UNIQUE INDEX {i} ON {t} (name(3))"),
    "sqlite": ("name TEXT", "CREATE UNIQUE INDEX {i} ON {t} (name) WHERE v > 0"),
}


def test_an_index_of_a_part_of_the_rows_or_values_is_none(place):
    """Pass: a partial index, and one of the first letters, tell keys apart no better than none."""
    column, index = PARTS[place.product]
    place.ask(f"CREATE TABLE {{t}} ({column}, v BIGINT, _commit_version BIGINT)")
    place.ask(index.replace("{i}", place.mark(f"i{place.name}")))
    with pytest.raises(OptionError, match="no unique index on just name"):
        place.write([], changes("name STRING, v BIGINT", ["name"]))


INEXACT = {
    "postgres": 'name TEXT COLLATE "any case" PRIMARY KEY',
    "mariadb": "name VARCHAR(99) COLLATE utf8mb4_general_ci PRIMARY KEY",
    "sqlite": "name TEXT COLLATE NOCASE PRIMARY KEY",
}


def test_a_key_that_takes_two_texts_for_one_is_none(place):
    """Pass: a table whose key does not tell capitals is refused; nothing of `A` would become of `a`."""
    if place.product == "postgres":
        place.ask(
            'CREATE COLLATION IF NOT EXISTS "any case" '
            "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    place.ask(f"CREATE TABLE {{t}} ({INEXACT[place.product]}, v BIGINT, _commit_version BIGINT)")
    with pytest.raises(
        OptionError, match="column name compares text by .* takes some keys for equal"
    ):
        place.write([], changes("name STRING, v BIGINT", ["name"]))


FIXED = {"postgres": ("CHAR(5)", "STRING"), "mariadb": ("BINARY(20)", "BINARY")}


@pytest.mark.parametrize("product", FIXED)
def test_a_column_that_fills_up_what_it_is_given_is_refused(place_in, product):
    """Pass: blanks or zeros at the end would be there that nobody wrote."""
    place = place_in(product)
    there, kind = FIXED[product]
    place.ask(f"CREATE TABLE {{t}} (id BIGINT, a {there})")
    with pytest.raises(
        OptionError, match=rf"column a is {there.replace('(', '.')[:-1]}.*, which can't hold"
    ):
        place.write([], f"id BIGINT, a {kind}")


@pytest.mark.parametrize(
    ("there", "kind"),
    [
        ("REAL", "BIGINT"),
        ("DOUBLE", "BIGINT"),
        ("JSON", "STRING"),
        ("JSON", "DECIMAL(5,2)"),
    ],
)
def test_a_column_of_sqlite_that_makes_other_values_is_refused(there, kind, place_in):
    """Pass: binary floats, which merge whole numbers from 2**53 on; JSON, where '007' would become 7."""
    place = place_in("sqlite")
    place.ask(f"CREATE TABLE {{t}} (a {there})")
    with pytest.raises(OptionError, match=f"column a is {there}, which can't hold"):
        place.write([], f"a {kind}")


#: The least and the largest of four bytes, and what is another number in eight.
FLOATS = (0.1, -1.1754944e-38, 1.401298464324817e-45, 3.4028234663852886e38, 16_777_217.0, 0.0)


@pytest.mark.parametrize("there", ["REAL", "DOUBLE PRECISION"])
@pytest.mark.parametrize("how", ["transactional", "staged"])
def test_a_float_is_the_same_number_in_a_small_batch_and_a_large_one(there, how, place_in):
    """Pass: of FLOAT, into a column of four bytes and of eight, what Spark has."""
    place = place_in("postgres")
    place.ask(f"CREATE TABLE {{t}} (id BIGINT, a {there})")
    held = [struct.unpack("f", struct.pack("f", value))[0] for value in FLOATS]
    for number, times in enumerate((1, 5)):
        rows = [{"id": n, "a": FLOATS[n % 6]} for n in range(6 * times)]
        assert place.write(rows, "id BIGINT, a FLOAT", how, number=number) is None
        found = place.ask("SELECT a::float8 FROM {t} ORDER BY id")
        assert [value for (value,) in found] == held * times
        place.ask("DELETE FROM {t}")


def test_a_table_without_transactions_is_refused(place_in):
    """Pass: of MyISAM, which would keep the rows of a batch that is undone."""
    place = place_in("mariadb")
    place.ask("CREATE TABLE {t} (id BIGINT) ENGINE = MyISAM")
    with pytest.raises(OptionError, match="its engine, MyISAM, has no transactions"):
        place.write([], "id BIGINT")


def test_names_of_columns_count_as_the_database_counts_them(place):
    """Pass: MySQL and SQLite take `Name` for `name`; PostgreSQL does not, and says that it is missing."""
    place.ask('CREATE TABLE {t} ("ID" BIGINT)'.replace('"', place.mark("")[0]))
    if place.product == "postgres":
        with pytest.raises(OptionError, match="no column id"):
            place.write([], "id BIGINT")
        return
    for add in (False, True):
        place.write([{"id": 1}], "id BIGINT", sink=place.sink(add_columns=add), number=int(add))
    assert place.ids() == [1, 1]


def test_a_column_that_the_database_computes_can_not_be_written(place_in):
    """Pass: told before the first batch."""
    for product, always in (
        ("postgres", "GENERATED ALWAYS AS (1) STORED"),
        ("postgres", "GENERATED ALWAYS AS IDENTITY"),
        ("mariadb", "AS (1)"),
        ("sqlite", "AS (1)"),
    ):
        place = place_in(product)
        place.ask(f"CREATE TABLE {{t}} (id BIGINT, n INT {always})")
        with pytest.raises(OptionError, match="column n is made by the database, and can't be"):
            place.write([], "id BIGINT, n INT")


def test_columns_are_added_when_the_document_says_so(place):
    """Pass: with the types of a new table; the rows that are there have nulls; the batch is written."""
    place.ask("CREATE TABLE {t} (id BIGINT)")
    place.ask("INSERT INTO {t} VALUES (1)")
    place.write([{"id": 2, "s": "x"}], f"id BIGINT, {DDL}", sink=place.sink(add_columns=True))
    made = MADE[place.product]
    found = columns(place)
    assert {name: found[name] for name in made} == {
        name: (kind, True) for name, kind in made.items()
    }
    assert place.rows("id, s") == [(1, None), (2, "x")]


def test_a_table_is_not_made_when_the_document_says_so(place):
    """Pass: an error of the option `table`, and no table."""
    with pytest.raises(OptionError, match="there is no table") as error:
        place.write([], "id BIGINT", sink=place.sink(create=False))
    assert error.value.option == "table"
    assert place.name not in place.tables()


@pytest.mark.parametrize(
    "names",
    [
        {"table": "x", "ledger": "x"},
        {"table": "mainstem_put"},
        {"table": "x", "ledger": "X__deleted"},
        {"table": "x", "ledger": "mainstem_gone"},
    ],
)
def test_tables_that_would_be_taken_for_each_other_are_refused(place, names):
    """Pass: the ledger's, the deletes' and the temporary tables' names are nobody else's."""
    with pytest.raises(OptionError, match="need names that differ"):
        place.write([], changes("id BIGINT, v BIGINT", ["id"]), sink=place.sink(**names))


# -- what the user may do ---------------------------------------------------------------------

LACKS = {
    "create": ((), "rows"),
    "insert": (("SELECT", "UPDATE", "DELETE"), "rows"),
    "update": (("SELECT", "INSERT", "DELETE"), "rows"),
    "delete": (("SELECT", "INSERT", "UPDATE"), "rows"),
    "ledger": (("SELECT", "INSERT", "UPDATE", "DELETE"), "ledger"),
}


@pytest.mark.parametrize("lacks", LACKS)
@pytest.mark.parametrize("product", ["postgres", "mariadb"])
def test_what_the_user_may_not_do_is_said_before_the_first_batch(product, lacks, place_in):
    """Pass: an error with the database's words, which name what is missing, and no password."""
    place = place_in(product)
    shape = changes("id BIGINT, v BIGINT", ["id"])
    everything, (rights, about) = "SELECT, INSERT, UPDATE, DELETE", LACKS[lacks]
    grants = ["GRANT USAGE ON *.* TO {u}"] if product == "mariadb" else []
    if lacks != "create":
        place.write([], shape)
        held = {place.name: ", ".join(rights), f"{place.name}__deleted": everything}
        held[place.ledger] = "SELECT" if lacks == "ledger" else everything
        grants += [f"GRANT {what} ON {place.mark(name)} TO {{u}}" for name, what in held.items()]
    elif product == "mariadb":
        grants += ["GRANT SELECT ON test.* TO {u}"]
    sink = place.sink(url=place.user("S3CRET", *grants))
    with pytest.raises(PipelineError) as error:
        sink.prepare(columns_of(place, shape), shape)
    text = str(error.value)
    assert "denied" in text
    name = {"create": "schema public" if product == "postgres" else place.name}.get(lacks)
    assert (name or (place.name if about == "rows" else place.ledger)) in text
    if product == "mariadb":
        assert {"ledger": "INSERT"}.get(lacks, lacks.upper()) in text
    assert "S3CRET" not in text


def columns_of(place, shape):
    from mainstem.columns import Column

    return [Column(f.name, f.dataType.simpleString()) for f in place.frame([], shape).schema]


@pytest.mark.parametrize("how", ["microbatch", "transactional"])
@pytest.mark.parametrize("product", ["postgres", "mariadb"])
def test_a_user_who_may_only_insert_can_write_events(product, how, place_in):
    """Pass: into tables that others made: INSERT on the table, and the ledger's own rights, are enough."""
    place = place_in(product)
    place.write([], "id BIGINT")
    ledger = f"GRANT SELECT, INSERT, UPDATE ON {place.mark(place.ledger)} TO {{u}}"
    url = place.user("S3CRET", "GRANT INSERT ON {t} TO {u}", ledger)
    sink = place.sink(url=url)
    assert place.write([{"id": 1}], "id BIGINT", how, sink=sink, number=1) is None
    assert place.ids() == [1]


@pytest.mark.parametrize("product", ["postgresql", "mariadb", "sqlite"])
def test_a_server_that_is_too_old_is_refused(product, place_in, monkeypatch):
    """Pass: an error for the machine, with the version that is there and the one that is needed."""
    place = place_in(product.replace("postgresql", "postgres"))
    monkeypatch.setitem(connecting.OLDEST, product, (99, 1))
    with pytest.raises(
        MachineError, match=rf"{product} \d+\..* is too old: 99.1 or newer is needed"
    ):
        place.write([], "id BIGINT")


# -- in a document ----------------------------------------------------------------------------


def out(place, **more):
    given = {"url": place.url, "table": place.name, "ledger": place.ledger, "give_up": "2 seconds"}
    return {"use": "sql", "from": "lines", "with": {**given, **more}}


SOURCE = {"use": "files", "with": {"path": "./in", "format": "jsonlines", "schema": "id BIGINT"}}


def test_a_table_that_does_not_fit_is_a_problem_of_the_document(place, pipeline):
    """Pass: at the key `table`, exit code 2, before anything is written."""
    place.ask("CREATE TABLE {t} (other INT NOT NULL)")
    pipeline.document(sources={"lines": SOURCE}, sinks={"out": out(place)})
    pipeline.feed("1.jsonl", [{"id": 1}])
    with pytest.raises(DocumentError, match="no column id; column other is NOT NULL") as error:
        pipeline.run()
    (problem,) = error.value.problems
    assert (problem.key, error.value.exit_code) == ("sinks.out.with.table", 2)


@pytest.mark.in_turn
def test_the_command_tells_of_a_table_that_does_not_fit(place_in, pipeline):
    """Pass: exit code 2, the key, the line of the document, and what to do."""
    place = place_in("sqlite")
    place.ask("CREATE TABLE {t} (other INT)")
    pipeline.document(sources={"lines": SOURCE}, sinks={"out": out(place)})
    pipeline.feed("1.jsonl", [{"id": 1}])
    ended = pipeline.command()
    assert ended.returncode == 2
    assert "sinks.out.with.table" in ended.stderr
    assert "no column id" in ended.stderr
    assert "add_columns: true" in ended.stderr
    assert place.ask("SELECT COUNT(*) FROM {t}") == [(0,)]


@pytest.mark.parametrize("there", ["DOUBLE(10,2)", "FLOAT(7,4)"])
def test_a_column_of_mysql_that_rounds_is_refused(there, place_in):
    """Pass: for both types of Spark's; one without digits takes them."""
    place = place_in("mariadb")
    place.ask(f"CREATE TABLE {{t}} (id BIGINT, a {there})")
    for kind in ("FLOAT", "DOUBLE"):
        with pytest.raises(OptionError, match=r"column a is .*, which can't hold"):
            place.write([], f"id BIGINT, a {kind}")
