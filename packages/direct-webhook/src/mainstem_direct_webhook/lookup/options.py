"""The options of the operator `http_lookup`."""

from __future__ import annotations

import re

from mainstem import Size, option
from mainstem_lookup import LookupOptions
from pydantic import model_validator

from mainstem_direct_webhook.client.options import EndpointOptions, Statuses
from mainstem_direct_webhook.client.secret_options import EndpointURL, split

#: Where the value of a column goes.
PLACE = re.compile(r"\{([^{}]*)\}")


class HTTPLookupOptions(LookupOptions, EndpointOptions):
    """Options of the operator `http_lookup`."""

    url: EndpointURL = option(
        description="Where to ask, with the names of columns in braces, in path or query: their values "
        "are put there, encoded. It is never printed; errors name the host alone. `user:password@` is "
        "sent as basic authentication.",
        example="https://api.example.com/customers/{customer_id}",
    )
    max_size: Size = option(
        2**20,
        gt=0,
        advanced=True,
        description="How large an answer may be; the row of a larger one is refused.",
    )
    reject: Statuses = option(
        (),
        description="Further statuses that are about the row, which goes to `rejected`, beside the 4xx "
        "that are: such as 403 or 500.",
        example=[403],
    )

    @model_validator(mode="after")
    def _names_columns(self) -> HTTPLookupOptions:
        parts = split(self.url)
        if "{" in parts.netloc or "}" in parts.netloc:
            raise ValueError(
                "the URL has braces in its host: columns stand in path and query alone"
            )
        if not self.names:
            raise ValueError("the URL names no column: .../{column}")
        left = PLACE.sub("", self.template)
        if "{" in left or "}" in left or not all(self.names):
            raise ValueError("the URL has a brace that does not fit, or nothing between two")
        return self

    @property
    def template(self) -> str:
        """Path and query of the URL, with the names of columns in braces."""
        parts = split(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names in braces, each once."""
        return tuple(dict.fromkeys(PLACE.findall(self.template)))
