"""What the document says of the observer."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from mainstem import Hidden, LocalPath, Options, PositiveDuration, Secret, check_web_address, option
from pydantic import model_validator


def _check(url: Secret) -> Secret:
    parts = check_web_address(url, "token")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("a path is no part of it: write `endpoint`")
    return url


class OpenLineageOptions(Options):
    """Options of the observer `openlineage`."""

    url: Annotated[Secret, Hidden(_check)] | None = option(
        None,
        description="Where events are posted to: the address of a server that takes OpenLineage's, such "
        "as Marquez or DataHub.",
        example="https://lineage.example.com",
    )
    endpoint: str = option(
        "api/v1/lineage", min_length=1, advanced=True, description="The path at the server."
    )
    token: Secret | None = option(
        None,
        description="What the server knows this client by: sent as a bearer token.",
        example="${env:OPENLINEAGE_API_KEY}",
    )
    file: LocalPath | None = option(
        None,
        description="In place of `url`: a file to which each event is added as a line of JSON.",
        example="./lineage.jsonl",
    )
    namespace: str = option(
        "default",
        min_length=1,
        description="The namespace of the job, whose name is the pipeline's.",
        example="orders-team",
    )
    every: PositiveDuration = option(
        timedelta(minutes=1),
        description="How often at most a run tells that it goes on, and how many rows it has handled.",
    )
    answer_timeout: PositiveDuration = option(
        timedelta(seconds=5),
        advanced=True,
        description="How long the server may take for an event, which is then retried a few times.",
    )
    give_up: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long the end of a run waits until its last events are taken.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> OpenLineageOptions:
        if (self.url is None) == (self.file is None):
            raise ValueError("expected either url or file")
        if self.token is not None and self.url is None:
            raise ValueError("`token` goes with `url`")
        return self
