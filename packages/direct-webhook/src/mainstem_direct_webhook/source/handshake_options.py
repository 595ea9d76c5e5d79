"""The options of handshakes: how senders make sure of a path, by name."""

from __future__ import annotations

from typing import Annotated, Literal

from mainstem import Options, Secret, option
from pydantic import Field


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
