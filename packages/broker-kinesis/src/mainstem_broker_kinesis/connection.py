"""How both components reach a stream: their common options, without the vendor's library."""

from __future__ import annotations

import re

from mainstem import option
from mainstem_aws.options import AWSOptions
from pydantic import field_validator, model_validator

#: A stream's ARN: partition, region, account, name.
_ARN = re.compile(r"arn:(aws[a-z-]*):kinesis:([a-z0-9-]+):(\d{12}):stream/([a-zA-Z0-9_.-]{1,128})")
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")


class ConnectionOptions(AWSOptions):
    """Options of a connection to a stream of Kinesis."""

    stream: str = option(
        description="The stream, by its name or its ARN. The ARN reaches streams of other accounts, and "
        "says the region.",
        example="clicks",
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

    @model_validator(mode="after")
    def _of_one_region(self) -> ConnectionOptions:
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
