"""Requests to AWS Glue's registry; only here is what knows AWS imported."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mainstem import ExternalError, PermanentError, TransientError

from mainstem_registry.client import Reference, Registered, Schema
from mainstem_registry.framing import UnknownSchema
from mainstem_registry.options import GlueOptions

_GONE = "EntityNotFoundException"
_AVAILABLE = "AVAILABLE"


class GlueClient:
    """Asks Glue, by AWS's library.

    Raises:
        PermanentError: what knows AWS is not installed, or the options are not those of any region.
    """

    def __init__(self, options: GlueOptions) -> None:
        try:
            from mainstem_aws import client
            from mainstem_aws.options import AWSOptions
        except ImportError:
            told = "AWS Glue's registry needs: pip install 'mainstem-registry[glue]'"
            raise PermanentError(told) from None
        self.place = "AWS Glue's registry"
        self._errors, self._options = client, AWSOptions(**options.model_dump())
        try:
            self._client = client.connect("glue", self._options)
        except Exception as error:
            raise self._failure(error) from None

    def schema(self, number: int, ids: str = "") -> Schema | None:
        """Return the schema of a version, whose UUID is given as a number; None if there is none.

        Raises:
            UnknownSchema: Glue has refused it, or is not done with it.
            TransientError: Glue is away.
            PermanentError: it refuses the request.
        """
        try:
            found: Any = self._client.get_schema_version(SchemaVersionId=str(UUID(int=number)))
        except Exception as error:
            if self._errors.code_of(error) == _GONE:
                return None
            raise self._failure(error) from None
        if found.get("Status") not in (None, _AVAILABLE):
            raise UnknownSchema(f"it is {found['Status']}")
        return Schema(str(found.get("SchemaDefinition")), str(found.get("DataFormat") or "AVRO"))

    def referred(self, to: Reference) -> Schema | None:
        """Return nothing: its schemas refer to no others."""
        return None

    def register(self, subject: str, schema: Schema) -> int:
        """Refuse: it is only read."""
        raise PermanentError(f"{self.place} is only read")

    def find(self, subject: str, schema: Schema) -> Registered | None:
        """Refuse: it is only read."""
        raise PermanentError(f"{self.place} is only read")

    def _failure(self, error: Exception) -> ExternalError:
        why = self._errors.permanent(error)
        told = f"{self.place}: {self._errors.words(error, self._options)}"
        return TransientError(told) if why is None else PermanentError(f"{told} ({why})")
