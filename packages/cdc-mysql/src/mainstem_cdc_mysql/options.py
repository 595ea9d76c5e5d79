"""What the document says of the source."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from mainstem import Hidden, Secret, check_database_url, option
from mainstem_cdc import RelationalOptions

from mainstem_cdc_mysql.values import has_reader


def _check(url: Secret) -> Secret:
    expected = "expected a URL: mysql://USER:PASSWORD@HOST/DATABASE"
    found = check_database_url(url, ("mysql", "mariadb"), expected)
    parts = urlsplit(found.get_secret_value())
    if parts.query:
        raise ValueError("the URL has parameters: there are none. TLS has an option, `tls`")
    if not parts.username:
        raise ValueError(f"the URL has no user; {expected}")
    return found


class MySQLSourceOptions(RelationalOptions):
    """Options of the source `mysql`."""

    port: ClassVar[int] = 3306
    product: ClassVar[str] = "MySQL"
    catalogued: ClassVar[str] = "mysql"
    url: Annotated[Secret, Hidden(_check)] = option(
        description="The database: `mysql://user:password@host:port/database`, of MySQL or MariaDB. The "
        "user needs REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR), and may read the "
        "tables.",
        example="${env:DATABASE_URL}",
    )
    zero_dates: Literal["refuse", "null"] = option(
        "refuse",
        description="What becomes of dates with a month or day of zero, such as `0000-00-00`, in columns "
        "that are read as DATE, TIMESTAMP or TIMESTAMP_NTZ: their row is refused, or they are null. "
        "STRING holds them.",
    )
    on_cascade: Literal["fail", "ignore"] = option(
        "fail",
        description="What becomes of a table with a foreign key that deletes or changes its rows along "
        "with those of another (`ON DELETE CASCADE`): the server writes no such change into its log. It "
        "ends the run, or they are passed over.",
    )
    on_statement: Literal["fail", "ignore"] = option(
        "fail",
        description="What a statement does that is in the log in place of the rows that it changes, as "
        "a session with another `binlog_format` than ROW writes it: it ends the run, for nobody knows "
        "which tables it changes; or it is passed over and counted.",
    )
    server_id: int | None = option(
        None,
        gt=0,
        lt=2**32,
        advanced=True,
        description="The number by which the server knows this reader, other than that of every replica; "
        "one at random when left out.",
    )

    @classmethod
    def has_reader(cls, kind: str) -> bool:
        return has_reader(kind)
