"""What a document says of a registry."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from mainstem import Hidden, Options, PositiveDuration, Secret, TLSOptions, option, split_address
from pydantic import model_validator

from mainstem_registry.framing import CONFLUENT, FRAMINGS, GLUE


def _check(url: Secret) -> Secret:
    parts = split_address(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected http://host:port or https:// for TLS, with the API's path")
    if parts.query or parts.fragment:
        raise ValueError("expected no parameters")
    return Secret(url.get_secret_value().rstrip("/"))


def _check_token(token: Secret) -> Secret:
    text = token.get_secret_value().strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("expected letters, digits and signs of ASCII, without blanks")
    return Secret(text)


class GlueOptions(Options):
    """Options of AWS Glue's registry; credentials are looked for where every tool for AWS looks."""

    region: str | None = option(
        None,
        min_length=1,
        description="The region, such as `eu-central-1`; that of the environment or the profile when "
        "left out.",
    )
    endpoint: str | None = option(
        None,
        pattern=r"^https?://[^@\s]+$",
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


class RegistryOptions(Options):
    """Options of a `registry`."""

    url: Annotated[Secret, Hidden(_check)] | None = option(
        None,
        description="Where its API is, `https://user:password@host:port/path`. User, password, port and "
        "path can be left out. Apicurio has that of Confluent at `/apis/ccompat/v7`, and its own at "
        "`/apis/registry/v3`.",
        example="${env:REGISTRY_URL}",
    )
    glue: GlueOptions | None = option(
        None,
        description="Instead of a `url`: AWS Glue's registry (`mainstem-registry[glue]`).",
        example={"region": "eu-central-1"},
    )
    token: Annotated[Secret, Hidden(_check_token)] | None = option(
        None,
        description="What is sent as `Authorization: Bearer`.",
        example="${env:REGISTRY_TOKEN}",
    )
    tls: TLSOptions | None = option(
        None, description="Certificates of TLS. The files must be on every machine."
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long a registry that is away is waited for before the batch fails.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.url is None) == (self.glue is None):
            raise ValueError("give a `url`, or `glue`")
        if self.url is None:
            if self.token is not None or self.tls is not None:
                raise ValueError("`token` and `tls` are for a `url`")
            return self
        if self.token is not None and split_address(self.url).username is not None:
            raise ValueError("give a `token`, or a user in the `url`")
        return self


class FramedOptions(Options):
    """Options of a format whose values may name their schema by a registry's number."""

    framing: Literal["none", "confluent"] = option(
        "none",
        description="What stands before a value: nothing, or the schema's number at a registry, as "
        "Confluent's serializers write it.",
    )
    registry: RegistryOptions | None = option(
        None, description="The registry whose numbers stand before values."
    )

    @model_validator(mode="after")
    def _registry_has_framing(self) -> Self:
        if (self.framing in FRAMINGS) != (self.registry is not None):
            told = "needs a `registry`" if self.registry is None else "has no registry"
            raise ValueError(f"`framing: {self.framing}` {told}")
        if self.registry is not None and (self.framing == GLUE) != (self.registry.glue is not None):
            raise ValueError("`framing: glue` is for a `registry` that has `glue`, and no other is")
        return self


class SubjectOptions(FramedOptions):
    """The same, for values that are written."""

    subject: str | None = option(
        None,
        min_length=1,
        description="The registry's subject, under which the schema is.",
        example="orders-value",
    )
    register_schema: bool = option(
        True,
        alias="register",
        description="Whether the schema is registered there if it is not yet; else the run fails then.",
    )

    @model_validator(mode="after")
    def _subject_has_registry(self) -> Self:
        if self.framing in FRAMINGS and self.framing != CONFLUENT:
            raise ValueError(f"`framing: {self.framing}` is only read")
        if self.subject in (".", ".."):
            raise ValueError("a `subject` is no dots")
        if not self.register_schema and self.registry is None:
            raise ValueError("`register: false` is for a `registry`")
        if (self.subject is None) != (self.registry is None):
            raise ValueError("a `registry` needs a `subject`, and a `subject` a registry")
        return self
