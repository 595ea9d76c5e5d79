"""What the document says of a connection to AWS, without the vendor's library."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from mainstem import Options, PositiveDuration, Secret, option
from pydantic import field_validator, model_validator


class AWSOptions(Options):
    """Options of a connection to AWS.

    What is left out is looked for where every tool for AWS looks: environment, `~/.aws`, web identity,
    the container's or machine's role.
    """

    region: str | None = option(
        None,
        min_length=1,
        description="The region, such as `eu-central-1`. When left out: that of an ARN or a URL, else of "
        "the environment (`AWS_REGION`, `AWS_DEFAULT_REGION`) or the profile.",
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
    def _fits(self) -> AWSOptions:
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
        return self

    @property
    def where(self) -> str | None:
        """The region, if the options say it."""
        return self.region

    def secrets(self) -> list[str]:
        """Return what no text may show."""
        held: list[Any] = [self.access_key, self.secret_key, self.session_token, self.external_id]
        return [secret.get_secret_value() for secret in held if secret is not None]
