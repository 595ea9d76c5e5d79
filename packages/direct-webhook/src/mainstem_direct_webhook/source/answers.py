"""What a request is answered with: problem details in JSON (RFC 9457), and nothing a forger can use."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

#: Names in lower case, and values.
Headers = list[tuple[bytes, bytes]]


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes = b""


class Refused(Exception):  # noqa: N818
    """A request is not taken; the text goes to the client, so it holds nothing of the request.

    Args:
        status: of the answer.
        detail: for the client.
        headers: more headers of the answer.
    """

    def __init__(
        self, status: int, detail: str, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = tuple(headers)

    def answer(self) -> Answer:
        """Return it as an answer."""
        title = HTTPStatus(self.status).phrase
        problem = {"title": title, "status": self.status, "detail": self.detail}
        body = json.dumps(problem, separators=(",", ":")).encode()
        return plain(self.status, body, b"application/problem+json", self.headers)


def plain(
    status: int, body: bytes, kind: bytes, more: Iterable[tuple[bytes, bytes]] = ()
) -> Answer:
    """Return an answer with a body of a media type."""
    length = b"%d" % len(body)
    return Answer(status, [(b"content-type", kind), (b"content-length", length), *more], body)


def busy(detail: str, seconds: int = 1) -> Refused:
    """Return a refusal for now: 503, to be sent again after so many seconds."""
    return Refused(503, detail, [(b"retry-after", b"%d" % seconds)])


def unverified(*headers: tuple[bytes, bytes]) -> Refused:
    """Return the one refusal of a request that proves nothing, whatever is wrong with it."""
    return Refused(401, "The request could not be verified.", headers)
