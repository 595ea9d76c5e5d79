"""How both components reach Kafka: their common options, in the words of Java's client and librdkafka's.

Spark reads and writes with Java's client; what Spark lacks is done with librdkafka's. The two name
most settings alike, and differ in TLS and SASL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from mainstem import Dataset, LocalPath, Options, PositiveDuration, Secret, Unprinted, option
from pydantic import (
    AfterValidator,
    BeforeValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from mainstem_broker_kafka.certificates import KafkaTLSOptions

#: A server as both clients read it: host and port, an IPv6 address in brackets.
_SERVER = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LOGINS = "org.apache.kafka.common.security"
#: Settings that librdkafka has not, or that mean something else to it; it refuses some of them.
_JAVA_ALONE = re.compile(
    r"sasl\.jaas\.config|sasl\..*callback\.handler\.class|sasl\.login\.class|ssl\.(key|trust)store\..*"
)
#: The settings of a key store that both read, if it is of the type PKCS12, the only one of librdkafka's.
_SHARED_STORE = {"ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type"}


class Properties(dict[str, str]):
    """Settings of a client, secrets among them: it can be pickled, and is never printed.

    Attributes:
        optional: those that a client may leave out if it knows nothing of them.
        left_out: those that were given and are none of this client's: it may lack a login by that.
    """

    optional: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Properties({', '.join(sorted(self))})"

    __str__ = __repr__

    @property
    def servers(self) -> str:
        """The servers, for errors."""
        return self["bootstrap.servers"]


class SASLOptions(Options):
    """Options of `sasl`."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = option(
        description="How to log in. `OAUTHBEARER` gets its tokens from `token_endpoint`."
    )
    user: str | None = option(None, min_length=1, description="The user (PLAIN, SCRAM).")
    password: Secret | None = option(
        None, description="The user's password (PLAIN, SCRAM).", example="${env:KAFKA_PASSWORD}"
    )
    token_endpoint: str | None = option(
        None,
        pattern="^https?://",
        description="Where OAUTHBEARER's tokens come from: the URL of an OAuth 2 token endpoint.",
        example="https://login.example.com/oauth2/token",
    )
    client_id: str | None = option(
        None, min_length=1, description="Who asks for tokens (OAUTHBEARER)."
    )
    client_secret: Secret | None = option(
        None, description="The secret of `client_id`.", example="${env:KAFKA_CLIENT_SECRET}"
    )
    scope: str | None = option(
        None, min_length=1, description="What tokens are asked for (OAUTHBEARER), if anything."
    )

    @model_validator(mode="after")
    def _fits_the_mechanism(self) -> SASLOptions:
        by_name = ["user", "password"]
        by_token = ["token_endpoint", "client_id", "client_secret"]
        needed, others = by_name, [*by_token, "scope"]
        if self.mechanism == "OAUTHBEARER":
            needed, others = by_token, by_name
        missing = [name for name in needed if getattr(self, name) is None]
        strange = [name for name in others if getattr(self, name) is not None]
        if missing:
            raise ValueError(f"{self.mechanism} needs {' and '.join(missing)}")
        if strange:
            raise ValueError(f"{self.mechanism} takes no {' and no '.join(strange)}")
        return self


def _one_or_more(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def as_text(value: Any) -> Any:
    """Return a number or a truth value as Kafka's settings have it; the rest as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_SCALAR = {"type": ["string", "number", "boolean"]}
#: The settings of both clients that hold credentials, by a part of their names.
_CREDENTIAL = re.compile(
    r"password|passphrase|secret|jaas|token|credential|oauthbearer\.config|\.key(\.pem)?$",
    re.IGNORECASE,
)


def _secrets_apart(settings: dict[str, Secret]) -> dict[str, Secret]:
    return {
        key: value if _CREDENTIAL.search(key) else Unprinted(value.get_secret_value())
        for key, value in settings.items()
    }


#: A setting in Kafka's own words: text, a number or a truth value.
_Setting = Annotated[Secret, BeforeValidator(as_text), WithJsonSchema(_SCALAR)]
#: Settings by name. None is printed; those that hold credentials are secrets.
Settings = Annotated[dict[str, _Setting], AfterValidator(_secrets_apart)]

#: One text, or a list of several.
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_more),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
#: One path, or a list of several.
Paths = Annotated[
    tuple[LocalPath, ...],
    BeforeValidator(_one_or_more),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "format": "path"},
                {"type": "array", "items": {"type": "string"}},
            ]
        }
    ),
]


class ConnectionOptions(Options):
    """Options of a connection to Kafka."""

    #: Settings that `kafka` can't give: by their names in Kafka, the option to use or the reason.
    owned: ClassVar[Mapping[str, str]] = {
        "bootstrap.servers": "write `servers`",
        "client.id": "write `client_id`",
        "key.serializer": "keys are bytes here",
        "value.serializer": "values are bytes here",
        "key.deserializer": "keys are bytes here",
        "value.deserializer": "values are bytes here",
    }

    servers: Texts = option(
        description="Some of the cluster's brokers, `host:port`; the others are found through them.",
        example="${env:KAFKA}",
    )
    sasl: SASLOptions | None = option(None, description="How to log in.")
    tls: KafkaTLSOptions | None = option(
        None,
        description="Encrypt connections. `tls: {}` trusts the certificates that the system trusts.",
    )
    client_id: str | None = option(
        None,
        min_length=1,
        advanced=True,
        description="What the brokers' logs, metrics and quotas know this client by.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=30),
        advanced=True,
        description="How long the brokers may take to answer a question about topics, offsets or groups.",
    )
    kafka: Settings = option(
        dict,
        advanced=True,
        description="Anything else, in Kafka's own words, for Spark's client; of the client that "
        "measures and publishes offsets, what it knows by these names.",
        example={"receive.buffer.bytes": 1048576},
    )
    librdkafka: Settings = option(
        dict,
        advanced=True,
        description="Settings of the second client alone (librdkafka), where it differs: a login that "
        "`kafka` gives in Java's words, say.",
        example={"sasl.kerberos.keytab": "/etc/kafka.keytab"},
    )

    def dataset(self, topic: str) -> Dataset:
        """Return a topic as catalogues know it."""
        return Dataset(f"kafka://{self.servers[0]}", topic)

    @field_validator("servers")
    @classmethod
    def _are_servers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        servers = tuple(s.strip() for text in value for s in text.split(",") if s.strip())
        if not servers:
            raise ValueError("expected at least one server: host:port")
        for server in servers:
            match = _SERVER.fullmatch(server)
            if match is None or not 0 < int(match[1]) < 65536:
                raise ValueError(f"expected host:port, not {server!r}")
        return servers

    @model_validator(mode="after")
    def _owns_some_settings(self) -> ConnectionOptions:
        for name, given in (("kafka", self.kafka), ("librdkafka", self.librdkafka)):
            for key in given:
                if reason := self._owned(key):
                    raise ValueError(f"`{name}` can't have `{key}`: {reason}")
        return self

    def _owned(self, key: str) -> str:
        if key.startswith("kafka."):
            return "leave `kafka.` out, as Kafka itself does"
        if key.startswith("sasl.") and self.sasl is not None:
            return "`sasl` is there"
        if key.startswith(("ssl.", "enable.ssl.")) and self.tls is not None:
            return "`tls` is there"
        if key == "security.protocol" and (self.sasl or self.tls) is not None:
            return "it follows from `sasl` and `tls`"
        return self.owned.get(key, "")

    @property
    def known_to_both(self) -> bool:
        """Whether the second client can log in: not where `kafka` alone says how, in Java's words."""
        told = self.java_alone | (self.kafka.keys() & {"sasl.mechanism"})
        return all(
            any(key.startswith(family) for key in self.librdkafka)
            for family in ("sasl.", "ssl.")
            if any(key.startswith(family) for key in told)
        )

    @property
    def java_alone(self) -> frozenset[str]:
        """The settings of `kafka` that are Java's alone: a login, stores of keys and certificates."""
        found = frozenset(key for key in self.kafka if _JAVA_ALONE.fullmatch(key))
        kind = self.kafka.get("ssl.keystore.type")
        if kind is not None and kind.get_secret_value().upper() == "PKCS12":
            found -= _SHARED_STORE
        return found

    @property
    def seconds(self) -> float:
        """`answer_timeout`, in seconds."""
        return self.answer_timeout.total_seconds()


class SparkOptions(ConnectionOptions):
    """Options of a connection, and of the jars that Spark speaks to Kafka with."""

    jars: Paths = option(
        (),
        advanced=True,
        description="Paths of the jars of Spark's Kafka connector, or of a folder of them, instead of "
        "`packages`: for machines that reach no Maven registry.",
        example="./jars",
    )
    packages: tuple[str, ...] | None = option(
        None,
        advanced=True,
        description="Maven coordinates of Spark's Kafka connector. When left out, the one that belongs "
        "to the installed PySpark; `[]` if Spark has it already.",
        example=["org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"],
    )

    @field_validator("packages")
    @classmethod
    def _are_coordinates(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for package in value or ():
            if not re.fullmatch(r"[^\s:,]+:[^\s:,]+:[^\s:,]+", package):
                raise ValueError(f"expected group:artifact:version, not {package!r}")
        return value


def topic_name(value: Any) -> str:
    """Return the name of a topic.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str) or not _TOPIC.fullmatch(value) or value in (".", ".."):
        raise ValueError(f"{value!r} is no name of a topic: letters, digits, `.`, `_` and `-`")
    return value


# -- the two renderings -------------------------------------------------------------------------


def java(options: ConnectionOptions) -> Properties:
    """Return the settings of a client in Java, without those of its task.

    Raises:
        OptionError: a file of `tls` can't be used.
    """
    made = _common(options)
    if options.tls is not None:
        blocks = options.tls.blocks()
        if "ca" in blocks:
            made |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": blocks["ca"]}
        if "certificate" in blocks:
            made["ssl.keystore.type"] = "PEM"
            made["ssl.keystore.certificate.chain"] = blocks["certificate"]
            made["ssl.keystore.key"] = blocks["key"]
        if options.tls.key_password is not None:
            made["ssl.key.password"] = options.tls.key_password.get_secret_value()
        if not options.tls.verify_host:
            made["ssl.endpoint.identification.algorithm"] = ""
    if (sasl := options.sasl) is not None:
        made["sasl.mechanism"] = sasl.mechanism
        if sasl.mechanism == "OAUTHBEARER":
            made["sasl.login.callback.handler.class"] = (
                f"{_LOGINS}.oauthbearer.OAuthBearerLoginCallbackHandler"
            )
            made["sasl.oauthbearer.token.endpoint.url"] = sasl.token_endpoint or ""
        made["sasl.jaas.config"] = _jaas(sasl)
    made |= {key: value.get_secret_value() for key, value in options.kafka.items()}
    return made


def librdkafka(options: ConnectionOptions) -> Properties:
    """Return the settings of a client on librdkafka, without those of its task.

    Raises:
        OptionError: a file of `tls` can't be used.
    """
    made = _common(options)
    if options.tls is not None:
        blocks = options.tls.blocks()
        for name, key in (("ca", "ca"), ("certificate", "certificate"), ("key", "key")):
            if name in blocks:
                made[f"ssl.{key}.pem"] = blocks[name]
        if options.tls.key_password is not None:
            made["ssl.key.password"] = options.tls.key_password.get_secret_value()
        verified = options.tls.verify_host
        made["ssl.endpoint.identification.algorithm"] = "https" if verified else "none"
    if (sasl := options.sasl) is not None:
        made["sasl.mechanism"] = sasl.mechanism
        if sasl.mechanism == "OAUTHBEARER":
            made["sasl.oauthbearer.method"] = "oidc"
            made["sasl.oauthbearer.token.endpoint.url"] = sasl.token_endpoint or ""
            made["sasl.oauthbearer.client.id"] = sasl.client_id or ""
            made["sasl.oauthbearer.client.secret"] = _open(sasl.client_secret)
            if sasl.scope is not None:
                made["sasl.oauthbearer.scope"] = sasl.scope
        else:
            made["sasl.username"] = sasl.user or ""
            made["sasl.password"] = _open(sasl.password)
    shared = {key: options.kafka[key] for key in options.kafka if key not in options.java_alone}
    for given in (shared, options.librdkafka):
        made |= {key: value.get_secret_value() for key, value in given.items()}
    made.optional = frozenset(shared.keys() - options.librdkafka.keys())
    made.left_out = frozenset() if options.known_to_both else options.java_alone
    return made


def spark_options(options: SparkOptions) -> Properties:
    """Return `java(options)` as options of Spark's format `kafka`."""
    return Properties({f"kafka.{key}": value for key, value in java(options).items()})


def _common(options: ConnectionOptions) -> Properties:
    made = Properties({"bootstrap.servers": ",".join(options.servers)})
    if options.sasl is not None or options.tls is not None:
        sasl = "SASL_" if options.sasl is not None else ""
        made["security.protocol"] = sasl + ("SSL" if options.tls is not None else "PLAINTEXT")
    if options.client_id is not None:
        made["client.id"] = options.client_id
    return made


def _jaas(sasl: SASLOptions) -> str:
    """Return the login in the syntax of Java's JAAS: quoted text, backslashes before quotes."""
    if sasl.mechanism == "OAUTHBEARER":
        module = "oauthbearer.OAuthBearerLoginModule"
        given = {"clientId": sasl.client_id or "", "clientSecret": _open(sasl.client_secret)}
        if sasl.scope is not None:
            given["scope"] = sasl.scope
    else:
        module = "plain.Plain" if sasl.mechanism == "PLAIN" else "scram.Scram"
        module += "LoginModule"
        given = {"username": sasl.user or "", "password": _open(sasl.password)}
    quoted = (f"{key}={_quoted(value)}" for key, value in given.items())
    return f"{_LOGINS}.{module} required {' '.join(quoted)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _open(secret: Secret | None) -> str:
    return secret.get_secret_value() if secret is not None else ""
