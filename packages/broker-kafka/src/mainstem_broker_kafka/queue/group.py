"""The settings of a share group, which brokers keep: where it begins, what it reads, how often."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem_broker_kafka import client
from mainstem_broker_kafka.connection import Properties
from mainstem_broker_kafka.queue.options import KafkaQueueOptions


def set_up(options: KafkaQueueOptions, settings: Properties, heard: client.Heard) -> None:
    """Let the group be as the options say; what is so already is left alone.

    Raises:
        KafkaException: brokers can't be asked, or do not allow it.
    """
    library = client.library()
    kinds = library.admin
    asked = client.admin(settings, heard)
    group = kinds.ConfigResource(kinds.ResourceType.GROUP, options.group)
    (future,) = asked.describe_configs([group], request_timeout=options.seconds).values()
    found = {name: entry.value for name, entry in future.result().items()}
    wanted = {name: value for name, value in _wanted(options).items() if found.get(name) != value}
    if not wanted:
        return
    changed = kinds.ConfigResource(
        kinds.ResourceType.GROUP,
        options.group,
        incremental_configs=[
            kinds.ConfigEntry(name, value, incremental_operation=kinds.AlterConfigOpType.SET)
            for name, value in wanted.items()
        ],
    )
    (answer,) = asked.incremental_alter_configs([changed], request_timeout=options.seconds).values()
    answer.result()


def _wanted(options: KafkaQueueOptions) -> Mapping[str, str]:
    wanted: dict[str, str] = {
        "share.auto.offset.reset": options.start,
        "share.isolation.level": options.isolation,
    }
    if options.deliveries is not None:
        wanted["share.delivery.count.limit"] = str(options.deliveries)
    return wanted
