"""The options of whatever sends requests to an endpoint."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address
from typing import Annotated, Literal

from mainstem import Options, PositiveDuration, TLSOptions, option
from pydantic import AfterValidator, model_validator

from mainstem_direct_webhook.client.addresses import refusal
from mainstem_direct_webhook.client.secret_options import (
    EndpointURL,
    SecretHeaders,
    SecretText,
    split,
    userinfo,
)


def _check_statuses(value: tuple[int, ...]) -> tuple[int, ...]:
    if not all(300 <= status <= 599 for status in value):
        raise ValueError("expected statuses from 300 to 599")
    return value


#: Statuses of answers that are no success.
Statuses = Annotated[tuple[int, ...], AfterValidator(_check_statuses)]


class AuthOptions(Options):
    """Options of `auth`: a bearer token, or a user with a password."""

    bearer: SecretText | None = option(
        None, description="A token, sent as `Authorization: Bearer ...`.", example="${env:TOKEN}"
    )
    user: str | None = option(
        None, min_length=1, pattern="^[^:]*$", description="The user of basic authentication."
    )
    password: SecretText | None = option(
        None, description="The password of `user`.", example="${env:PASSWORD}"
    )

    @model_validator(mode="after")
    def _one(self) -> AuthOptions:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together")
        if (self.bearer is None) == (self.user is None):
            raise ValueError("expected either bearer, or user and password")
        return self


class EndpointOptions(Options):
    """Options of what sends requests: where to, how to log in, and how far to trust."""

    url: EndpointURL = option(
        description="Where to send: `https://host/path`. It is never printed; errors name the host "
        "alone, for paths and queries often hold tokens. `user:password@` is sent as basic "
        "authentication.",
        example="${env:WEBHOOK_URL}",
    )
    headers: SecretHeaders = option(
        dict,
        description="Headers of all requests. Their values are never printed.",
        example={"x-tenant": "a"},
    )
    auth: AuthOptions | None = option(
        None, description="How to log in at the endpoint, beside what `tls` and `headers` say."
    )
    tls: TLSOptions | None = option(
        None, description="Certificates. The files must be on every machine."
    )
    http2: bool = option(True, description="Whether to speak HTTP/2 with endpoints that offer it.")
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long one try may take, from the connection to the end of the answer.",
    )
    longest_wait: PositiveDuration = option(
        timedelta(minutes=1),
        advanced=True,
        description="How long to wait between two tries at most, whatever `Retry-After` says.",
    )
    redirects: Literal["never", "same_host"] = option(
        "never",
        description="Whether to follow redirects (307, 308) to the same scheme, host and port. One to "
        "elsewhere is never followed.",
    )
    allow_private: bool = option(
        False,
        description="Whether to connect to addresses that are not public: private, loopback, "
        "link-local, reserved.",
    )

    @model_validator(mode="after")
    def _reachable(self) -> EndpointOptions:
        parts = split(self.url)
        if self.tls is not None and parts.scheme != "https":
            raise ValueError("tls is there, but the URL does not begin with https://")
        if self.auth is not None and (userinfo(self.url) or "authorization" in self.headers):
            raise ValueError("auth is there, and the URL or `headers` say how to log in too")
        if userinfo(self.url) and "authorization" in self.headers:
            raise ValueError("the URL has a user, and `headers` has authorization too")
        if not self.allow_private and (why := _literal(parts.hostname or "")):
            raise ValueError(f"the URL's host {why}; `allow_private: true` lets it be")
        return self


def _literal(host: str) -> str | None:
    """Return why a host that is an address is refused."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return refusal(address)
