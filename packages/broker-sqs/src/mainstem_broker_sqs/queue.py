"""A queue of SQS, as both components speak to it."""

from __future__ import annotations

import json
from typing import Any

from mainstem import PermanentError, PipelineError, TransientError
from mainstem_aws.client import code_of, connect, permanent, words

from mainstem_broker_sqs.options import QueueOptions

#: How many messages one request is about at most.
MOST = 10
#: What says that the queue is not there.
_GONE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")


class Queue:
    """A queue that is there.

    Args:
        options: which one.
        connections: how many threads call at once, at most.

    Attributes:
        client: of AWS's library; threads may share it.
        facts: the queue's attributes.

    Raises:
        PermanentError: there is no such queue, or the credentials won't do.
        TransientError: it can't be reached now.
    """

    def __init__(self, options: QueueOptions, connections: int) -> None:
        self._options = options
        self.client: Any = None
        fault = None
        try:
            self.client = connect("sqs", options, connections=connections)
            self.url = options.url or self.client.get_queue_url(QueueName=options.name)["QueueUrl"]
            self.facts: dict[str, str] = self.attributes("All")
        except Exception as error:
            fault = self.failure(error)
        if fault is not None:  # raised here, for what was caught holds an open connection
            self.close()
            raise fault

    def attributes(self, *names: str) -> dict[str, str]:
        """Return what the queue says of itself."""
        asked = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=list(names))
        found: dict[str, str] = asked.get("Attributes", {})
        return found

    @property
    def dead_letters(self) -> str | None:
        """Where messages go that were taken too often, and how often that is; None for nowhere."""
        try:
            policy = json.loads(self.facts.get("RedrivePolicy", "{}"))
            name = str(policy["deadLetterTargetArn"]).rpartition(":")[2]
            return f"{name}, after {policy['maxReceiveCount']}"
        except (ValueError, KeyError, TypeError):
            return None

    def failure(self, error: Exception) -> PipelineError:
        """Return what an error of a call means, in words without secrets."""
        if isinstance(error, PipelineError):
            return error
        place, said = self._options.place(), words(error, self._options)
        if code_of(error) in _GONE:
            return PermanentError(f"{place}: it is not there")
        if why := permanent(error):
            return PermanentError(f"{place}: {why}: {said}")
        return TransientError(f"{place}: {said}")

    def close(self) -> None:
        """End the connections."""
        if self.client is not None:
            self.client.close()
