"""What the document says of the observer."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from mainstem import Hidden, Options, PositiveDuration, Secret, check_web_address, option
from pydantic import field_validator


def _check(url: Secret) -> Secret:
    check_web_address(url, "headers")
    return url


class OpenTelemetryOptions(Options):
    """Options of the observer `opentelemetry`."""

    url: Annotated[Secret, Hidden(_check)] = option(
        "http://127.0.0.1:4318/v1/traces",
        validate_default=True,
        description="Where spans are posted to, by OTLP over HTTP: a collector's whole address.",
        example="https://collector.example.com/v1/traces",
    )
    headers: dict[str, Secret] = option(
        dict,
        description="Headers that the collector wants, such as a token.",
        example={"Authorization": "${env:OTLP_TOKEN}"},
    )
    service: str | None = option(
        None,
        min_length=1,
        description="The service that spans are of; the pipeline's name when left out.",
    )
    links: bool = option(
        True,
        description="Link a batch to the traces of up to 32 of its messages, by their header "
        "`traceparent`, in queries without steps that keep state. Costs as much as to keep the batch.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=5),
        advanced=True,
        description="How long the collector may take for some spans, retries included.",
    )
    give_up: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long the end of a run waits until its last spans are taken.",
    )

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, Secret]) -> dict[str, Secret]:
        for name, held in value.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                raise ValueError("a name is none of a header")
            if not held.get_secret_value().isprintable():
                raise ValueError("a header's value has control characters")
        return value
