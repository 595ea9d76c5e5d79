"""Operator `http_lookup`: a row asks an HTTP service."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem_lookup import Lookup, LookupOperator

from mainstem_direct_webhook.lookup.options import HTTPLookupOptions


class HTTPLookupOperator(LookupOperator):
    """Adds to each row what an HTTP service says of it: a GET for each key, a JSON object as answer.

    204, 404 and 410 say that there is nothing. Answers that do not fit the schema, and other 4xx that are
    about the request, send the row to `rejected`; what passes with time is asked again.
    """

    options: HTTPLookupOptions

    def lookup(self) -> type[Lookup]:
        from mainstem_direct_webhook.lookup.http import HTTPLookup

        return HTTPLookup

    def key(self) -> Sequence[tuple[str, str]]:
        return [("url", name) for name in self.options.names]
