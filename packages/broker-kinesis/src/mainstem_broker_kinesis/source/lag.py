"""How far a log is behind the shards of its stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from mainstem import Lag, PipelineError
from mainstem_aws.client import connect, words

from mainstem_broker_kinesis.source.fetching import Read, describe, list_shards, read
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import Cursor, at_horizon, merged

if TYPE_CHECKING:
    from mainstem_ingress.log import Log
    from mypy_boto3_kinesis import KinesisClient


class Measuring:
    """Asks a stream how far its shards are ahead of a log.

    By one client, whose connections are closed between: each new one reads the description of the service
    anew, and leaves the process larger.
    """

    def __init__(self, options: KinesisSourceOptions) -> None:
        self._options = options
        self._client: KinesisClient | None = None

    def behind(self, log: Log) -> Sequence[Lag]:
        """Return for each shard that is not drained how old the oldest record is that the log lacks.

        It takes one read of each, of the five a second that a shard allows. Ages may be up to a second
        too low: the stream's clock is known by whole seconds. How many records there are, Kinesis does
        not tell. Nothing is asked before a log begins.

        Raises:
            PipelineError: the stream can't be asked, or is another one than the log's.
        """
        options = self._options
        try:
            cursors = [Cursor.decoded(text) for text in log.cursors().values()]
        except ValueError as error:
            raise PipelineError(str(error)) from error
        if not cursors:
            return []
        try:
            self._client = self._client or connect("kinesis", options)
        except Exception as error:
            raise PipelineError(f"{options.place()}: {words(error, options)}") from error
        with closing(self._client):
            return _behind(options, self._client, cursors)


def _behind(
    options: KinesisSourceOptions, client: KinesisClient, cursors: Sequence[Cursor]
) -> list[Lag]:
    places, target = merged(cursors), options.target()
    try:
        facts = describe(client, target)
        shards = list_shards(client, target)
    except Exception as error:
        raise PipelineError(f"{options.place()}: {words(error, options)}") from error
    if facts.created != cursors[0].created:
        raise PipelineError(
            f"{options.place()} is another stream than the one the log was read from"
        )
    found = []
    for shard in shards:
        place = places.get(shard.id, at_horizon())
        if place.drained:
            continue
        answer = read(client, target, Read(shard.id, place), 1)
        if answer.error is not None:
            text = words(answer.error, options)
            raise PipelineError(f"{options.place()}: {text}") from answer.error
        oldest = answer.records[0]["ApproximateArrivalTimestamp"] if answer.records else None
        # What the shard itself tells is how old the next one is.
        age = answer.behind if oldest is None else time.time() + facts.ahead - oldest.timestamp()
        found.append(Lag(shard.id, None, max(0.0, age)))
    return found
