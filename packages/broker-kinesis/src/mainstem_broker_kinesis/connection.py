"""How both components reach a stream: their common options, without the vendor's library."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from mainstem import Options, PositiveDuration, Secret, option
from pydantic import field_validator, model_validator

#: A stream's ARN: partition, region, account, name.
_ARN = re.compile(r"arn:(aws[a-z-]*):kinesis:([a-z0-9-]+):(\d{12}):stream/([a-zA-Z0-9_.-]{1,128})")
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")


class ConnectionOptions(Options):
    """Options of a connection to a stream of Kinesis.

    What is left out is looked for where every tool for AWS looks: environment, `~/.aws`, web identity,
    the container's or machine's role.
    """

    stream: str = option(
        description="The stream, by its name or its ARN. The ARN reaches streams of other accounts, and "
        "says the region.",
        example="clicks",
    )
    region: str | None = option(
        None,
        min_length=1,
        description="The region, such as `eu-central-1`. When left out: that of the ARN, else of the "
        "environment (`AWS_REGION`, `AWS_DEFAULT_REGION`) or the profile.",
    )
    endpoint: str | None = option(
        None,
        description="A URL to speak to instead of AWS: a VPC endpoint, or an emulator.",
        example="http://127.0.0.1:4567",
    )
    profile: str | None = option(
        None, min_length=1, description="A profile of `~/.aws/config` or `~/.aws/credentials`."
    )
    role_arn: str | None = option(
        None,
        pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$",
        description="A role to assume, by its ARN; it is assumed again before it runs out.",
    )
    external_id: Secret | None = option(
        None, description="What the role's trust policy asks for as `ExternalId`.", advanced=True
    )
    session_name: str | None = option(
        None,
        pattern=r"^[\w+=,.@-]{2,64}$",
        description="The name of the role's sessions, as CloudTrail shows it; `mainstem` when left out.",
        advanced=True,
    )
    access_key: Secret | None = option(
        None, description="An access key's id. Better to leave it to the environment."
    )
    secret_key: Secret | None = option(None, description="The access key's secret.")
    session_token: Secret | None = option(
        None, description="The session token of a temporary access key."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection may take.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long an answer may take.",
    )
    attempts: int = option(
        3,
        ge=1,
        le=100,
        advanced=True,
        description="How often a call is tried (retries of AWS's `standard` mode) before its failure is "
        "dealt with here.",
    )

    @field_validator("stream")
    @classmethod
    def _a_stream(cls, value: str) -> str:
        if not _NAME.fullmatch(value) and not _ARN.fullmatch(value):
            raise ValueError(
                "expected a stream's name, or an ARN such as "
                "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
            )
        return value

    @field_validator("endpoint")
    @classmethod
    def _a_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            usable = bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("expected a URL that begins with http:// or https://")
        if parts.username is not None:
            raise ValueError(
                "the URL has a user: credentials are the options access_key, secret_key"
            )
        return value

    @model_validator(mode="after")
    def _fits(self) -> ConnectionOptions:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key go together")
        if self.session_token is not None and self.access_key is None:
            raise ValueError("session_token goes with access_key and secret_key")
        if self.profile is not None and self.access_key is not None:
            raise ValueError(
                "profile and access_key are two ways to say the same: give one of them"
            )
        if self.role_arn is None and (self.external_id or self.session_name):
            raise ValueError("external_id and session_name are for role_arn, which is not there")
        found = _ARN.fullmatch(self.stream)
        if found and self.region is not None and self.region != found[2]:
            raise ValueError(f"region is {self.region}, and the stream's ARN says {found[2]}")
        return self

    @property
    def name(self) -> str:
        """The stream's name."""
        found = _ARN.fullmatch(self.stream)
        return found[4] if found else self.stream

    @property
    def where(self) -> str | None:
        """The region, if the options say it."""
        found = _ARN.fullmatch(self.stream)
        return found[2] if found else self.region

    def target(self) -> dict[str, str]:
        """Return what names the stream in a call."""
        if _ARN.fullmatch(self.stream):
            return {"StreamARN": self.stream}
        return {"StreamName": self.stream}

    def place(self) -> str:
        """Return where the stream is, for people: no secrets."""
        at = self.endpoint or (f"Kinesis in {self.where}" if self.where else "Kinesis")
        return f"stream {self.name} at {at}"

    def secrets(self) -> list[str]:
        """Return what no text may show."""
        held: list[Any] = [self.access_key, self.secret_key, self.session_token, self.external_id]
        return [secret.get_secret_value() for secret in held if secret is not None]
