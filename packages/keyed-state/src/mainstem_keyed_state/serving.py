"""Answers over HTTP what nodes keep by key, from their checkpoints, as JSON; it changes nothing."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from mainstem import DocumentError, MainstemError, PipelineError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mainstem_keyed_state.keys import KEY_TEXT
from mainstem_keyed_state.nodes import kept, layouts_of, no_table, stateful
from mainstem_keyed_state.state_files import GoneError

if TYPE_CHECKING:
    from mainstem.commands import Plan

#: Where the token is that callers must send.
TOKEN = "MAINSTEM_STATE_TOKEN"  # noqa: S105  # its name
#: How many rows of a table an answer has, and how many at most.
_SHOWN, _MOST = 20, 10_000
#: As many as a number of a batch has at most.
_DIGITS = 18
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(plan: Plan, host: str, port: int) -> None:
    """Answer until somebody stops it.

    Raises:
        PipelineError: others than this machine could ask, and no token is set.
    """
    token = os.environ.get(TOKEN, "")
    if not token and host not in _LOOPBACK:
        raise PipelineError(
            f"{host} is not of this machine alone: set {TOKEN} to what callers must send"
        )
    uvicorn.run(application(plan, token), host=host, port=port, log_level="warning")


def application(plan: Plan, token: str = "") -> Starlette:
    """Return what answers.

    `GET /` tells the nodes; `GET /NODE`, with `key` for each value of a key, `table`, `batch` and
    `limit`, the rows and the batch that they are of.

    Args:
        token: what callers must send as `Authorization: Bearer`; nothing if it is empty.
    """

    def allowed(request: Request) -> bool:
        sent = request.headers.get("authorization", "")
        kind, _, given = sent.partition(" ")
        right = hmac.compare_digest(given.strip().encode(), token.encode())
        return not token or (kind.lower() == "bearer" and right)

    def nodes(request: Request) -> Response:
        if not allowed(request):
            return _json({"error": "not authorized"}, 401)
        try:
            return _json({"pipeline": plan.pipeline, "nodes": stateful(plan)})
        except MainstemError as error:
            return _json({"error": str(error)}, 503)

    def node(request: Request) -> Response:
        if not allowed(request):
            return _json({"error": "not authorized"}, 401)
        try:
            return _json(_answer(plan, request))
        except _WrongRequestError as error:
            return _json({"error": str(error)}, 400)
        except DocumentError as error:
            return _json({"error": error.problems[0].message}, 404)
        except GoneError as error:
            return _json({"error": str(error)}, 404 if "batch" in request.query_params else 503)
        except MainstemError as error:
            return _json({"error": str(error)}, 503)

    # Else a page that a browser of this machine shows could ask, by a name that stands for it.
    hosts = ["*"] if token else ["127.0.0.1", "localhost", "[::1]", "::1"]
    return Starlette(
        routes=[Route("/", nodes), Route("/{node}", node)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
    )


class _WrongRequestError(Exception):
    """A request asks for what can't be: says why."""


def _answer(plan: Plan, request: Request) -> dict[str, Any]:
    name, asked = request.path_params["node"], request.query_params
    unknown = set(asked) - {"key", "table", "batch", "limit"}
    if unknown:
        raise _WrongRequestError(f"nothing is known of {min(unknown)!r}")
    limit, batch = _number(asked.get("limit")), _number(asked.get("batch"))
    limit = min(_SHOWN if limit is None else limit or _MOST, _MOST)
    key, table = asked.getlist("key") or None, asked.get("table")
    layouts = layouts_of(plan, name)
    if key is not None:
        try:
            for layout in layouts.values():
                layout.keys.of_texts(key)
        except PipelineError as error:
            raise _WrongRequestError(str(error)) from None
    found = kept(plan, name, key, batch)
    if (
        table is not None
        and found.known is not None
        and table not in found.known | set(found.tables)
    ):
        raise no_table(plan, name, table, [*(found.known | set(found.tables))])
    tables = {n: _some(rows, limit) for n, rows in found.tables.items() if table in (None, n)}
    return {"node": name, "batch": found.batch, "tables": tables}


def _some(rows: Iterator[dict[str, Any]], limit: int) -> dict[str, Any]:
    some = list(islice(rows, limit + 1))
    told = [{"key": row.pop(KEY_TEXT), "row": row} for row in some[:limit]]
    return {"rows": told, "more": len(some) > limit}


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise _WrongRequestError(f"{text!r} is no number")
    return int(text)


def _json(told: dict[str, Any], status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(told),
        status,
        media_type="application/json",
        headers={
            "cache-control": "no-store",
            **({"www-authenticate": "Bearer"} if status == 401 else {}),
        },
    )
