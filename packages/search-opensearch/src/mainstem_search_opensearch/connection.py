"""Requests to OpenSearch, and what its errors mean: the one module that imports the vendor's library."""

from __future__ import annotations

import json
import logging
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import opensearchpy
from mainstem import PermanentError, TLSOptions, TransientError

from mainstem_search_opensearch.options import OpenSearchOptions

PORT = 9200
# What it would log is raised, and told there.
logging.getLogger("opensearch").setLevel(logging.CRITICAL)
#: Answers that pass with time.
_PASSING = (408, 429, 502, 503, 504)
_BAD, _BROKEN = 400, 500
#: Errors of one document; and what such an error says where it is about the index.
_OF_A_DOCUMENT = (
    "mapper_parsing_exception",
    "document_parsing_exception",
    "strict_dynamic_mapping_exception",
    "illegal_argument_exception",
    "invalid_index_name_exception",
    "x_content_parse_exception",
    "parse_exception",
    "action_request_validation_exception",
)
_OF_AN_INDEX = ("no write index", "maximum shards open", "maximum normal shards open", "closed")
#: What the node forbids for a while: its disk is full, or it is being moved.
_BLOCKED = ("cluster_block_exception", "circuit_breaking_exception")


class _Exact(opensearchpy.serializer.JSONSerializer):
    """Reads numbers with all their digits."""

    def loads(self, data: str) -> Any:
        return json.loads(data, parse_float=Decimal)


class Connection:
    """Requests to a node. Numbers with a point come as `Decimal`."""

    def __init__(self, options: OpenSearchOptions) -> None:
        address = options.address()
        self._place = f"{address.hostname}:{address.port or PORT}"
        given: dict[str, Any] = {
            "hosts": [{"host": address.hostname, "port": address.port or PORT}],
            "timeout": options.answer_timeout.total_seconds(),
            "max_retries": 0,  # the caller does
            "retry_on_status": (),
            "http_compress": False,
            "serializer": _Exact(),
        }
        if address.username:
            given["http_auth"] = (unquote(address.username), unquote(address.password or ""))
        if address.scheme == "https":
            tls = options.tls or TLSOptions()
            try:
                given |= {"use_ssl": True, "ssl_context": tls.context()}
            except OSError as error:
                raise PermanentError(str(error)) from None
        self._client = opensearchpy.OpenSearch(**given)

    def ask(
        self, method: str, path: str, body: Any = None, *, missing: Any = None, **params: Any
    ) -> Any:
        """Return what the node answers.

        Args:
            missing: what is returned where there is no such thing; an error if it is None.

        Raises:
            TransientError, PermanentError: it can't be reached, or does not do it.
            ConflictError: another version is there.
            LargeError: the request is too large.
        """
        try:
            return self._client.transport.perform_request(method, path, params=params, body=body)
        except opensearchpy.exceptions.NotFoundError as error:
            if missing is not None:
                return missing
            raise self._failure(error) from None
        except opensearchpy.exceptions.ConflictError as error:
            raise ConflictError(self._words(error)) from None
        except opensearchpy.OpenSearchException as error:
            if getattr(error, "status_code", None) == 413:
                raise LargeError(self._words(error)) from None
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> PermanentError | TransientError:
        status, words = getattr(error, "status_code", None), self._words(error)
        passes = not isinstance(status, int) or passing(status, words)
        if "certificate verify failed" in words.lower():
            passes = False
        return (TransientError if passes else PermanentError)(words)

    def _words(self, error: Exception) -> str:
        info = getattr(error, "info", None)
        if isinstance(info, dict) and isinstance(info.get("error"), dict):
            return f"{self._place}: {reason_of(info['error'])}"
        status = getattr(error, "status_code", None)
        told = getattr(error, "error", None) or str(error)
        number = f"{status} " if isinstance(status, int) else ""
        return f"{self._place}: {number}{' '.join(str(told).split())}"

    def close(self) -> None:
        """End the connections."""
        self._client.close()


class ConflictError(Exception):
    """Another version is there."""


class LargeError(Exception):
    """A request is larger than the node takes."""


def passing(status: int, words: str) -> bool:
    """Whether an answer passes with time."""
    return status >= _BROKEN or status in _PASSING or any(each in words for each in _BLOCKED)


def is_about_a_document(status: int, error: Any) -> bool:
    """Whether an answer to a document says that this one can't be taken, and not that none can."""
    kind = error.get("type", "") if isinstance(error, dict) else ""
    words = reason_of(error)
    return status == _BAD and kind in _OF_A_DOCUMENT and not any(w in words for w in _OF_AN_INDEX)


def reason_of(error: Any) -> str:
    """Return why the node refused something, in its own words."""
    if not isinstance(error, dict):
        return str(error)
    told = f"{error.get('type', 'error')}: {error.get('reason', '')}"
    cause = error.get("caused_by")
    return f"{told} ({reason_of(cause)})" if cause else told
