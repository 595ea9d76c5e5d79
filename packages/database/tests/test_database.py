"""How a database is reached, and what its errors mean; the tests of the sink `sql` show it on servers."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from mainstem import MachineError
from mainstem_database.connecting import (
    Meaning,
    check_version,
    failure,
    make_engine,
    meaning,
    of_a_database,
    words,
)
from mainstem_database.options import DatabaseOptions
from pydantic import ValidationError


def options(url, **more):
    return DatabaseOptions.model_validate({"url": url, "table": "t", **more})


@pytest.fixture
def engine(tmp_path):
    made = make_engine(options(f"sqlite:///{tmp_path}/t.db", give_up="50 ms"))
    yield made
    made.dispose()


def failed(engine, *statements):
    """Return the error of the last of some statements."""
    with engine.begin() as connection:
        for each in statements[:-1]:
            connection.exec_driver_sql(each)
    with pytest.raises(sa.exc.SQLAlchemyError) as told, engine.begin() as connection:
        connection.exec_driver_sql(statements[-1])
    return told.value


def test_a_file_is_reached_and_synced(engine):
    """Pass: what is committed outlives a loss of power, as far as SQLite says so; the version is enough."""
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        check_version(connection)


def test_errors_are_a_row_s_or_pass_or_last(engine):
    """Pass: a value that is refused, a lock, and a table that is not there, with the database's own words."""
    row = failed(engine, "CREATE TABLE t (a INT NOT NULL)", "INSERT INTO t VALUES (NULL)")
    lasting = failed(engine, "INSERT INTO nowhere VALUES (1)")
    with engine.begin() as holder:
        holder.exec_driver_sql("INSERT INTO t VALUES (1)")
        passing = failed_to_begin(engine)
    found = [meaning(each) for each in (row, passing, lasting)]
    assert found == [Meaning.ROW, Meaning.TRANSIENT, Meaning.PERMANENT]
    assert words(lasting) == "no such table: nowhere"
    assert of_a_database(row)
    assert not of_a_database(ValueError("x"))


def failed_to_begin(engine):
    with pytest.raises(sa.exc.OperationalError) as told, engine.begin():
        pass
    return told.value


def test_errors_name_the_place_and_no_secret():
    """Pass: product, host, port and database; of the URL nothing else."""
    place = options("postgresql://u:S3CRET@db.example:5433/shop")
    told = str(failure(OSError("it is gone"), place))
    assert told == "postgresql db.example:5433/shop: it is gone"
    assert "S3CRET" not in repr(place) + str(place)


def test_what_is_no_url_is_told():
    """Pass: without what it was."""
    for wrong in ("http://u:S3CRET@h/d", "sqlite://S3CRET.db", "postgresql://u:S3CRET@h"):
        with pytest.raises(ValidationError) as told:
            options(wrong)
        assert "S3CRET" not in str(told.value)


def test_a_server_that_is_too_old_is_refused(engine):
    """Pass: says which version is needed."""
    with engine.connect() as connection:
        connection.dialect.server_version_info = (3, 8)
        with pytest.raises(MachineError, match=r"sqlite 3\.8 is too old: 3\.35"):
            check_version(connection)
