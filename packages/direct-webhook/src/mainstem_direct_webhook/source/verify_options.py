"""The options of verifiers, by name: how senders prove who they are; and of handshakes."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from mainstem import (
    Hidden,
    Options,
    PositiveDuration,
    Secret,
    option,
)
from pydantic import Field, field_validator, model_validator

from mainstem_direct_webhook.fields import TOKEN
from mainstem_direct_webhook.standard import read_secret


class MetaHandshake(Options):
    """Meta: GET with `hub.challenge`, which comes back if `hub.verify_token` is right."""

    use: Literal["meta"] = option(description="Meta (Facebook, Instagram, WhatsApp).")
    token: Secret = option(description="The verify token.", example="${env:META_VERIFY_TOKEN}")


class GraphHandshake(Options):
    """Microsoft Graph: POST with `validationToken`, which comes back."""

    use: Literal["graph"] = option(description="Microsoft Graph.")


class CloudEventsHandshake(Options):
    """CloudEvents' abuse protection: OPTIONS with `WebHook-Request-Origin`."""

    use: Literal["cloudevents"] = option(
        description="CloudEvents' protection against abuse (HTTP 1.1 Web Hooks for Event Delivery)."
    )
    origins: list[str] | None = option(
        None,
        min_length=1,
        description="The origins that may send; all when left out.",
        example=["eventemitter.example.com"],
    )
    rate: int | None = option(
        None, ge=1, description="How many requests each may send in a minute; any when left out."
    )


class ReachableHandshake(Options):
    """GET and HEAD are answered with 200, and nothing else."""

    use: Literal["reachable"] = option(
        description="Senders that only look whether the path is there (Trello, Mailchimp)."
    )


Handshake = Annotated[
    MetaHandshake | GraphHandshake | CloudEventsHandshake | ReachableHandshake,
    Field(discriminator="use"),
]


def _check(value: tuple[Secret, ...]) -> tuple[Secret, ...]:
    if not value or not all(each.get_secret_value() for each in value):
        raise ValueError("expected a secret as text, or a list of them, and none that is empty")
    return value


#: One secret, or several while it is changed: each is tried.
Secrets = Annotated[tuple[Secret, ...], Hidden(_check)]

_ROTATED = "The secret; a list of them while it is changed."
_TOLERANCE = "How far the signed time may be from ours; others are answered with 400."


class Timed(Options):
    """Of verifiers whose senders sign a time."""

    tolerance: PositiveDuration = option(timedelta(minutes=5), description=_TOLERANCE)

    @property
    def window(self) -> timedelta | None:
        """For how long one request can be let in again and again; None for ever."""
        return 2 * self.tolerance  # signed by a clock that is ahead by as much


class StandardVerify(Timed):
    """Standard Webhooks: `webhook-signature` over id, time and body, `v1` and `v1a`."""

    use: Literal["standard"] = option(description="Standard Webhooks.")
    secret: Secrets = option(
        description="`whsec_...` for HMAC (v1), `whpk_...` for ed25519 (v1a); a list while it is "
        "changed.",
        example="${env:WEBHOOK_SECRET}",
    )

    @field_validator("secret", mode="after")
    @classmethod
    def _readable(cls, value: tuple[Secret, ...]) -> tuple[Secret, ...]:
        for each in value:
            read_secret(each.get_secret_value())
        return value


class GitHubVerify(Options):
    """GitHub: `X-Hub-Signature-256` over the body."""

    use: Literal["github"] = option(description="GitHub.")
    secret: Secrets = option(description=_ROTATED, example="${env:GITHUB_SECRET}")


class StripeVerify(Timed):
    """Stripe: `Stripe-Signature` over time and body."""

    use: Literal["stripe"] = option(description="Stripe.")
    secret: Secrets = option(description=_ROTATED, example="${env:STRIPE_SECRET}")


class SlackVerify(Timed):
    """Slack: `X-Slack-Signature` over time and body; its URL check is answered too."""

    use: Literal["slack"] = option(description="Slack.")
    secret: Secrets = option(description=_ROTATED, example="${env:SLACK_SECRET}")


class HMACVerify(Timed):
    """Any other HMAC over the body in a header."""

    use: Literal["hmac"] = option(description="Any other HMAC.")
    secret: Secrets = option(description=_ROTATED)
    header: str = option(
        min_length=1,
        pattern=f"^{TOKEN.pattern}$",
        description="The header with the signature.",
        example="X-Shop-Signature",
    )
    digest: Literal["sha1", "sha256", "sha384", "sha512"] = option(
        "sha256", description="The hash function."
    )
    encoding: Literal["hex", "base64"] = option("hex", description="How the signature is written.")
    prefix: str = option("", description="What stands before it in the header.", example="sha256=")
    timestamp: str | None = option(
        None,
        min_length=1,
        description="The header with the time of signing, in seconds since 1970. None when left out: "
        "an old request is then as good as a new one.",
    )
    id: str | None = option(
        None,
        min_length=1,
        pattern=f"^{TOKEN.pattern}$",
        description="The header with the delivery's id, where that is signed too. An id that holds the "
        "text behind it in `signed` is refused: it could be told in two ways.",
    )
    signed: str = option(
        "{body}",
        description="What is signed, of `{body}`, `{timestamp}`, `{id}` and other text.",
        example="{id}.{timestamp}.{body}",
    )

    @property
    def window(self) -> timedelta | None:
        return None if self.timestamp is None else super().window

    @model_validator(mode="after")
    def _signed(self) -> HMACVerify:
        if self.signed.count("{body}") != 1 or self.signed.count("{timestamp}") > 1:
            raise ValueError("`signed` holds {body} once, and {timestamp} once at most")
        if self.signed.count("{id}") > 1 or ("{id}" in self.signed) != (self.id is not None):
            raise ValueError("`id` names the header of what `signed` holds as {id}, once")
        if ("{timestamp}" in self.signed) != (self.timestamp is not None):
            raise ValueError("a time that is not signed proves nothing: `timestamp` names its "
                             "header, and `signed` holds {timestamp}")  # fmt: skip
        return self


class BearerVerify(Options):
    """`Authorization: Bearer TOKEN`."""

    use: Literal["bearer"] = option(description="A token.")
    token: Secrets = option(description="The token; a list of them while it is changed.")


class BasicVerify(Options):
    """`Authorization: Basic ...`."""

    use: Literal["basic"] = option(description="A user and a password.")
    user: str = option(min_length=1, pattern="^[^:]*$", description="The user, without a colon.")
    password: Secrets = option(description="The password; a list of them while it is changed.")


class MTLSVerify(Options):
    """A client's certificate, signed by `tls.ca`."""

    use: Literal["mtls"] = option(description="A client's certificate, signed by `tls.ca`.")
    subjects: list[str] | None = option(
        None,
        min_length=1,
        description="The common names, or subject alternative names, that are let in; all that the "
        "authority has signed when left out.",
        example=["billing.example.com"],
    )


class NoVerify(Options):
    """Everybody is let in."""

    use: Literal["none"] = option(description="Everybody is let in.")


Verify = Annotated[
    StandardVerify
    | GitHubVerify
    | StripeVerify
    | SlackVerify
    | HMACVerify
    | BearerVerify
    | BasicVerify
    | MTLSVerify
    | NoVerify,
    Field(discriminator="use"),
]
