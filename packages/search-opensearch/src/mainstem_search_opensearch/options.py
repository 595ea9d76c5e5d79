"""What the document says of OpenSearch. Nothing here imports the vendor's library."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self
from urllib.parse import SplitResult, urlsplit

from mainstem import Hidden, Options, PositiveDuration, Secret, TLSOptions, option, split_address
from mainstem.columns import Template, TemplateText
from pydantic import field_validator, model_validator

_SCHEMES = ("http", "https")


def _check(url: Secret) -> Secret:
    parts = split_address(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("expected http://host:port or https:// for TLS")
    if parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError("expected no path and no parameters: there are options for what they say")
    return url


class OpenSearchOptions(Options):
    """Options of the sink `opensearch`."""

    url: Annotated[Secret, Hidden(_check)] = option(
        description="A node, `http://user:password@host:port`, or `https://` for TLS. User, password and "
        "port (9200) can be left out.",
        example="${env:OPENSEARCH_URL}",
    )
    tls: TLSOptions | None = option(
        None, description="Certificates of TLS. The files must be on every machine."
    )
    index: TemplateText = option(
        min_length=1,
        description="The index, with columns in braces: `orders`, `orders-{day}`. Of a table, columns of "
        "its key alone. A brace is written twice.",
        example="orders",
    )
    id: TemplateText | None = option(
        None,
        min_length=1,
        description="The id of a table's row, with all columns of its key in braces; these with `:` "
        "between when left out. Events have an id of their own.",
        example="{shop}-{number}",
    )
    routing: str | None = option(
        None,
        min_length=1,
        description="The column by which documents are put into shards; of a table, one of its key.",
    )
    mappings: dict[str, Any] | None = option(
        None,
        description="The mappings of an index that is made here, as OpenSearch has them. Left out, it "
        "makes fields as it meets them.",
        example={"properties": {"city": {"type": "keyword"}}},
    )
    settings: dict[str, Any] | None = option(
        None, description="The settings of an index that is made here.", advanced=True
    )
    deletes_within: PositiveDuration = option(
        timedelta(days=1),
        description="How long a deletion is remembered, so that an older change that comes late does not "
        "bring its document back: `index.gc_deletes` of an index without columns in its name. Of others, "
        "as of `mappings` and `settings`, it is for the cluster's index templates to say.",
    )
    bulk_rows: int = option(
        1_000, gt=0, description="How many documents a request has at most.", advanced=True
    )
    bulk_bytes: int = option(
        8 * 2**20, gt=0, description="How many bytes it has about at most.", advanced=True
    )
    refresh: bool = option(
        False,
        description="Let searches see what was written before the batch is done; else they do within "
        "`index.refresh_interval`.",
        advanced=True,
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30), advanced=True, description="How long an answer may take."
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry without any progress before the batch fails.",
    )

    @field_validator("id")
    @classmethod
    def _of_one_row(cls, value: str | None) -> str | None:
        if value is not None:
            Template(value).apart()
        return value

    @model_validator(mode="after")
    def _securely(self) -> Self:
        if self.tls is not None and self.address().scheme != "https":
            raise ValueError("tls is there, and url is not https://")
        return self

    def address(self) -> SplitResult:
        """Return the parts of the URL, of which user and password are never shown."""
        return urlsplit(self.url.get_secret_value())

    @property
    def fixed(self) -> str | None:
        """The index, where there is one; None where columns name several."""
        template = Template(self.index)
        return None if template.columns else template.filled({})
