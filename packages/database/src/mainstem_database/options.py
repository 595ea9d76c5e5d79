"""The options that sink and source share: which database, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from mainstem import (
    Dataset,
    Hidden,
    HostTLSOptions,
    Options,
    PositiveDuration,
    Secret,
    check_database_url,
    option,
)
from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

#: The product behind each scheme of a URL.
PRODUCTS = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}


def _check(url: Secret) -> Secret:
    text = url.get_secret_value().strip()
    if not text.startswith("sqlite:"):
        return check_database_url(url, PRODUCTS.keys() - {"sqlite"}, _EXPECTED)
    if "#" in text:
        raise ValueError("the URL has something after `#`: in a file's name write %23")
    if "?" in text:
        raise ValueError("a URL of SQLite takes nothing after `?`: in a file's name write %3F")
    if not text.startswith(_SQLITE) or _file(text) in ("", ":memory:"):
        raise ValueError("expected sqlite:///FILE")
    return Secret(text)


def _in_folder(url: Secret, info: ValidationInfo) -> Secret:
    """Take a relative file of SQLite from the document's folder."""
    text = url.get_secret_value()
    if not text.startswith(_SQLITE):
        return url
    return Secret(f"{_SQLITE}{Path((info.context or {}).get('folder') or '', _file(text))}")


def _file(text: str) -> str:
    return unquote(text.removeprefix(_SQLITE))


_SQLITE = "sqlite:///"
_EXPECTED = (
    "expected a URL: postgresql://USER:PASSWORD@HOST/DATABASE, mysql://..., mariadb://... or "
    "sqlite:///FILE"
)

#: By product, its name in catalogues, its usual port, and the schema of tables that name none.
_CATALOGUED = {"postgresql": ("postgres", 5432, "public"), "mysql": ("mysql", 3306, "")}
#: Hosts that are this machine.
_HERE = (None, "localhost", "127.0.0.1", "::1")

#: The URL of a database; it is never printed.
DatabaseURL = Annotated[Secret, Hidden(_check), AfterValidator(_in_folder)]


class DatabaseOptions(Options):
    """Options of a connection to a database."""

    url: DatabaseURL = option(
        description="The database: `postgresql://user:password@host:port/database`, `mysql://...` "
        "(MariaDB too), or `sqlite:///file`, relative to the document.",
        example="${env:DATABASE_URL}",
    )
    table: str = option(
        min_length=1, description="The table, as it is named in the database.", example="orders"
    )
    namespace: str | None = option(
        None,
        min_length=1,
        description="What databases call the table's schema (MySQL: its database); the connection's own "
        "when left out.",
    )
    tls: HostTLSOptions | None = option(
        None,
        description="Demand an encrypted connection to a server whose certificate is signed as this "
        "says.",
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10), advanced=True, description="How long connecting may take."
    )
    statement_timeout: PositiveDuration | None = option(
        None,
        advanced=True,
        description="How long one statement may take before the server ends it (not on SQLite).",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=1),
        advanced=True,
        description="How long to retry after a lost connection, a deadlock, a failed serialization or a "
        "lock before the batch fails.",
    )

    @model_validator(mode="after")
    def _can_be_verified(self) -> DatabaseOptions:
        if self.tls and self.product == "sqlite":
            raise ValueError("tls: SQLite is a file, and has no connection to encrypt")
        return self

    @field_validator("table", "namespace")
    @classmethod
    def _can_be_a_name(cls, value: str | None) -> str | None:
        if value is not None and ("\x00" in value or value != value.strip()):
            raise ValueError("expected a name without a NUL, or blanks around it")
        return value

    def cautions(self) -> Iterator[str]:
        host = urlsplit(self.url.get_secret_value()).hostname
        if self.product != "sqlite" and self.tls is None and host not in _HERE:
            yield (
                f"the connection to {self.place} is not encrypted: whoever is between reads rows and "
                "password, and can change rows. Give `tls`."
            )

    @property
    def product(self) -> str:
        """`postgresql`, `mysql` (MariaDB too) or `sqlite`."""
        return PRODUCTS[urlsplit(self.url.get_secret_value()).scheme]

    @property
    def place(self) -> str:
        """The database as `product host:port/database`, without user and password."""
        if self.product == "sqlite":
            return f"sqlite {self.file}"
        parts = urlsplit(self.url.get_secret_value())
        port = f":{parts.port}" if parts.port else ""
        return f"{self.product} {parts.hostname}{port}{parts.path}"

    def dataset(self, table: str) -> Dataset:
        """Return a table as catalogues know it."""
        parts = urlsplit(self.url.get_secret_value())
        if self.product == "sqlite":
            return Dataset("file", f"{self.file}/{table}")
        system, port, schema = _CATALOGUED[self.product]
        database = unquote(parts.path.removeprefix("/"))
        path = [database, self.namespace or schema] if schema else [self.namespace or database]
        return Dataset.at_server(system, parts.geturl(), port, ".".join([*path, table]))

    @property
    def file(self) -> str:
        """The path of an SQLite database."""
        return self.url.get_secret_value().removeprefix("sqlite:///")
