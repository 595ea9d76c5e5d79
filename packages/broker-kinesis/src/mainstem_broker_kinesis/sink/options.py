"""What the document says of the sink."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from mainstem import PositiveDuration, Size, option

from mainstem_broker_kinesis.connection import ConnectionOptions

#: AWS's limits of a record, in bytes of data and partition key: what a stream takes unless it was
#: changed, and the most that it can be changed to.
USUAL_RECORD, LARGEST_RECORD = 2**20, 10 * 2**20


class KinesisSinkOptions(ConnectionOptions):
    """Options of the sink `kinesis`."""

    format: Literal["kpl", "raw"] = option(
        "kpl",
        description="What a record of Kinesis holds. `kpl`: messages of one partition key, packed as "
        "AWS's producer library packs them, each with its identity and its headers as tags; the "
        "consumer library (KCL), Firehose, Flink's connector and our source take them apart. `raw`: "
        "the value of one message and nothing else, for readers that do not; headers are left out, and "
        "nobody can tell copies.",
    )
    partition_key_from: str = option(
        "key",
        min_length=1,
        description="The column that holds each message's partition key, text or bytes. Messages "
        "without one are spread over all shards.",
    )
    key_encoding: Literal["utf8", "hex"] = option(
        "utf8",
        description="How a partition key in bytes becomes text: bytes that are UTF-8 as they are "
        "(others are refused), or all as hexadecimal digits.",
    )
    hash_key_from: str | None = option(
        None,
        min_length=1,
        description="The column that holds each message's explicit hash key, a whole number from 0 to "
        "2^128-1 as a number or text: it decides the shard instead of the partition key's MD5. Where "
        "it is null, the partition key decides.",
        example="hash_key",
    )
    order: Literal["key", "log", "none"] = option(
        "key",
        description="`key`: a record is sent when all earlier ones of its key are in, so that a task's "
        "messages of a key stay in their order, whatever fails. `log`: as `key`, and each key's "
        "messages are first brought together and into the order of their log (columns origin, "
        "partition, position); it costs a shuffle. `none`, for `format: raw`: a call may hold any number "
        "of records of a key, and one that fails comes after them.",
    )
    partitions: int | None = option(
        None,
        gt=0,
        description="How many tasks write in parallel at most; as many as the batch has partitions "
        "when left out.",
    )
    max_record: Size | None = option(
        None,
        gt=0,
        le=LARGEST_RECORD,
        advanced=True,
        description="The largest record that the stream takes, data and partition key together. Left "
        "out, what the stream says, or 1 MiB where it does not. What does not fit is refused.",
        example="1 MiB",
    )
    requests: int = option(
        4,
        gt=0,
        le=64,
        advanced=True,
        description="How many calls of a task may be without an answer at a time.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to try on without any progress before the batch fails.",
    )
