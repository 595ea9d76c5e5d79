"""What the document says of the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from mainstem import Hidden, Secret, option
from mainstem_cdc import CaptureOptions, TableOptions
from pydantic import field_validator

from mainstem_cdc_mongodb.values import has_reader

#: What of a URL's parameters gives up checking who the server is.
_UNCHECKED = {"tlsallowinvalidcertificates", "tlsallowinvalidhostnames", "tlsinsecure"}
_HERE = ("localhost", "127.0.0.1", "[::1]")


def _check(url: Secret) -> Secret:
    expected = "expected a URL: mongodb://USER:PASSWORD@HOST,HOST/DATABASE"
    parts = urlsplit(url.get_secret_value())
    # What the one reads as a host may be another's password, which errors would then show.
    beside = "@" in parts.path + parts.query + parts.fragment or parts.netloc.count("@") > 1
    if beside or parts.fragment:
        raise ValueError(
            "no valid URL: is a character of the password not encoded (`@` as %40, `/` as %2F, `#` as "
            "%23)?"
        )
    given = parse_qsl(parts.query, keep_blank_values=True)
    told = {key.lower() for key, value in given if value.lower() != "false"}
    if found := sorted(told & _UNCHECKED):
        raise ValueError(
            f"the URL's {', '.join(found)} would leave the server's certificate unchecked: give `tls`, "
            "with `ca` where it is signed by an authority of your own"
        )
    if "loadbalanced=true" in parts.query.lower():
        raise ValueError(
            "change streams behind `loadBalanced=true` are not known here: name the hosts"
        )
    if parts.scheme not in ("mongodb", "mongodb+srv"):
        raise ValueError(f"no URL of MongoDB; {expected}")
    if not parts.netloc.rpartition("@")[2]:
        raise ValueError(f"the URL has no host; {expected}")
    if not parts.path.removeprefix("/"):
        raise ValueError(f"the URL has no database; {expected}")
    return url


class MongoDBSourceOptions(CaptureOptions):
    """Options of the source `mongodb`."""

    port: ClassVar[int] = 27017
    product: ClassVar[str] = "MongoDB"
    catalogued: ClassVar[str] = "mongodb"
    url: Annotated[Secret, Hidden(_check)] = option(
        description="The database: `mongodb://user:password@host,host/database?replicaSet=NAME`, or "
        "`mongodb+srv://`. The user has the role `read`; where collections are in several databases, "
        "`readAnyDatabase`.",
        example="${env:DATABASE_URL}",
    )
    tables: dict[str, TableOptions] = option(
        dict,
        description="The collections, each an output of its name: `from: shop.orders`. `table` names one "
        "as COLLECTION or DATABASE.COLLECTION; `key` is the column of `_id`, by whatever name; the other "
        "columns are fields of its documents, null where one has none of that name.",
    )

    @classmethod
    def has_reader(cls, kind: str) -> bool:
        return has_reader(kind)

    @field_validator("tables")
    @classmethod
    def _have_ids(cls, value: dict[str, TableOptions]) -> dict[str, TableOptions]:
        for name, table in value.items():
            if len(table.key) != 1:
                raise ValueError(f"the key of {name} is one column, that of `_id`")
        return value

    def placed(self, name: str, table: TableOptions) -> tuple[str, str]:
        # Names of collections have dots, those of databases none.
        database, dot, collection = (table.table or name).partition(".")
        return (database, collection) if dot else (self.database, database)

    def cautions(self) -> Iterator[str]:
        url = self.url.get_secret_value()
        hosts = [host.partition(":")[0] for host in self._hosts.split(",")]
        safe = url.startswith("mongodb+srv:") or "tls=true" in url or "ssl=true" in url
        if self.tls is None and not safe and not set(hosts) <= set(_HERE):
            yield (
                f"the connection to {self.place} is not encrypted: whoever is between reads rows and "
                "password, and can change rows. Give `tls`."
            )

    @property
    def _hosts(self) -> str:
        return urlsplit(self.url.get_secret_value()).netloc.rpartition("@")[2]

    @property
    def database(self) -> str:
        return unquote(urlsplit(self.url.get_secret_value()).path.removeprefix("/"))

    @property
    def place(self) -> str:
        return f"{self._hosts}/{self.database}"
