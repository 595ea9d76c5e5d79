"""The jars of Spark's Kafka connector, which PySpark does not bring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem import MachineError, Needs

from mainstem_broker_kafka.connection import SparkOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


def connector() -> str:
    """Return the Maven coordinates of the connector that belongs to the installed PySpark."""
    release = re.match(r"\d+(\.\d+)*", version("pyspark"))
    return f"{_CONNECTOR}:{release[0] if release else version('pyspark')}"


def needs(options: SparkOptions) -> Needs:
    """Return what the Spark session needs for `options`.

    Raises:
        MachineError: a jar that the document names is not there.
    """
    jars = tuple(str(jar) for place in options.jars for jar in _jars(place))
    packages = options.packages
    if packages is None:
        packages = () if jars else (connector(),)
    return Needs(packages=packages, jars=jars, conf=_conf(options))


def _jars(place: Path) -> Iterator[Path]:
    found = sorted(place.glob("*.jar")) if place.is_dir() else [place]
    if not found or not all(jar.is_file() for jar in found):
        what = "holds no jar" if place.is_dir() else "is not there"
        raise MachineError(
            f"{place}, which `jars` names, {what}. It is to have Spark's Kafka connector: "
            f"{connector()} with what that depends on (spark-token-provider-kafka-0-10, kafka-clients, "
            "commons-pool2)."
        )
    yield from (jar.absolute() for jar in found)


def missing(error: Exception) -> bool:
    """Whether Spark complains that it knows nothing of Kafka."""
    return "Failed to find data source: kafka" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(
        error
    )


def explained(options: SparkOptions) -> str:
    """Return what to do in a session without the connector."""
    given = f"`jars: {', '.join(map(str, options.jars))}`" if options.jars else "`packages`"
    return (
        f"this Spark session has no Kafka connector, though {given} names one: a session takes jars only "
        f"when it is made. Start a new one, with {connector()} and what that depends on."
    )


#: The property of Java that names the token endpoints which Kafka's client may ask (KIP-1139).
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def _conf(options: SparkOptions) -> dict[str, str]:
    if options.sasl is None or options.sasl.token_endpoint is None:
        return {}
    return {"spark.executor.extraJavaOptions": f"-D{_ALLOWED}={options.sasl.token_endpoint}"}


def allow_token_endpoint(options: SparkOptions, spark: SparkSession) -> None:
    """Allow Kafka's client in the driver to ask the endpoint of `sasl` for tokens.

    Executors are told by `needs`; the driver's Java may have been started for somebody else.
    """
    if options.sasl is None or (url := options.sasl.token_endpoint) is None:
        return
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    allowed = [each for each in (system.getProperty(_ALLOWED) or "").split(",") if each]
    if url not in allowed:
        system.setProperty(_ALLOWED, ",".join([*allowed, url]))
