"""Requests to a registry. Imported by tasks and commands alone."""

from __future__ import annotations

import json
import ssl
import time
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
from mainstem import ExternalError, PermanentError, TransientError

from mainstem_registry.framing import IDS, UnknownSchema
from mainstem_registry.options import RegistryOptions

#: How large a schema may be, in bytes.
MOST = 4 * 2**20
#: How long a step of a request may take, and all of it, in seconds.
_SECONDS, _LONGEST = 10.0, 30.0
#: Statuses of what may be asked again, beside those of servers' own faults.
_BUSY = frozenset((408, 425, 429))
#: The codes of a subject, a version and a schema that are not there.
_NOT_THERE = frozenset((40401, 40402, 40403))
_JSON = "application/vnd.schemaregistry.v1+json"


class Reference(NamedTuple):
    """A schema that another one refers to by a name: a version of a subject, `group` is Apicurio's."""

    name: str
    subject: str
    version: str
    group: str | None = None


class Schema(NamedTuple):
    """A schema as a registry has it; `kind` is `AVRO`, `PROTOBUF`, `JSON`, empty if it is unknown."""

    text: str
    kind: str
    references: tuple[Reference, ...] = ()


class Registered(NamedTuple):
    """A schema's number, and its version under a subject."""

    number: int
    version: int


class Client:
    """Asks a registry, by the API of Confluent's, or for its own ids by Apicurio's.

    Raises:
        PermanentError: the address is none, or a file of `tls` can't be read.
    """

    def __init__(self, options: RegistryOptions) -> None:
        url = options.url.get_secret_value() if options.url is not None else ""
        parts = urlsplit(url)
        self.place = f"registry {parts.hostname}" + (f":{parts.port}" if parts.port else "")
        headers = {"Accept": f"{_JSON}, application/json, */*"}
        if options.token is not None:
            headers["Authorization"] = f"Bearer {options.token.get_secret_value()}"
        try:
            context: ssl.SSLContext | bool = options.tls.context() if options.tls else True
            self._client = httpx.Client(
                base_url=url, verify=context, headers=headers, timeout=_SECONDS
            )
        except OSError as error:
            told = f"can't read a file of `tls`: {error.strerror}"
            raise PermanentError(f"{self.place}: {told}") from None
        except Exception as error:
            # Its text may have the address, and so the password.
            told = f"the address, or the environment's proxy, is none ({type(error).__name__})"
            raise PermanentError(f"{self.place}: {told}") from None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def schema(self, number: int, ids: str = IDS) -> Schema | None:
        """Return the schema of a number; None if there is none.

        Args:
            ids: what the number is.

        Raises:
            UnknownSchema: what is there can't be read.
            TransientError: the registry is away.
            PermanentError: it refuses the request.
        """
        if ids == IDS:
            return _schema(self._ask("GET", f"schemas/ids/{number}"))
        text = self._ask("GET", f"ids/{ids}/{number}", text=True)
        if text is None:
            return None
        told = self._ask("GET", f"ids/{ids}/{number}/references")
        return Schema(text, "", _references(told, "artifactId"))

    def referred(self, to: Reference) -> Schema | None:
        """Return the schema that another one refers to; None if it is not there."""
        subject, version = quote(to.subject, safe=""), quote(to.version, safe="")
        if to.group is None:
            return _schema(self._ask("GET", f"subjects/{subject}/versions/{version}"))
        its = f"groups/{quote(to.group, safe='')}/artifacts/{subject}/versions/{version}"
        text = self._ask("GET", f"{its}/content", text=True)
        if text is None:
            return None
        return Schema(text, "", _references(self._ask("GET", f"{its}/references"), "artifactId"))

    def latest(self, subject: str) -> Schema | None:
        """Return the latest schema of a subject; None if there is none."""
        return _schema(self._ask("GET", f"subjects/{quote(subject, safe='')}/versions/latest"))

    def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return list(map(str, self._ask("GET", "subjects") or ()))

    def register(self, subject: str, schema: Schema) -> int:
        """Return the number of a schema, registered under a subject unless it is already.

        Raises:
            PermanentError: it does not fit to those before it; the text has both.
        """
        found = self._ask(
            "POST", f"subjects/{quote(subject, safe='')}/versions", _body(schema), conflict=True
        )
        if isinstance(found, _Conflict):
            try:
                latest = self.latest(subject)
                before = latest.text if latest is not None else "none"
            except (ExternalError, UnknownSchema) as error:
                before = f"it was not told: {error}"
            raise PermanentError(
                f"{self.place}: the schema does not fit to those of {subject}: {found.why}\n"
                f"the new one: {schema.text}\nthe latest: {before}"
            )
        return _number(found, self.place)

    def find(self, subject: str, schema: Schema) -> Registered | None:
        """Return what a schema is under a subject; None if it is not registered."""
        found = self._ask("POST", f"subjects/{quote(subject, safe='')}", _body(schema))
        if found is None:
            return None
        return Registered(_number(found, self.place), _number(found, self.place, "version"))

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        text: bool = False,
        conflict: bool = False,
    ) -> Any:
        """Return what the registry answers, None for what is not there."""
        until = time.monotonic() + _LONGEST
        try:
            with self._client.stream(
                method, path, json=body, headers={"Content-Type": _JSON} if body else None
            ) as answer:
                held = bytearray()
                for chunk in answer.iter_bytes():
                    held += chunk
                    if len(held) > MOST:
                        raise UnknownSchema(f"it has more than {MOST:,} bytes")
                    if time.monotonic() > until:
                        raise TransientError(f"{self.place}: an answer takes too long")
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise self._failure(error) from None
        status, whole = answer.status_code, bytes(held)
        why = _told(whole)
        if status == httpx.codes.NOT_FOUND:
            return self._missing(whole, why)
        if conflict and status == httpx.codes.CONFLICT:
            return _Conflict(why)
        if status in _BUSY or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise TransientError(f"{self.place}: {status} {why}")
        if not answer.is_success:
            raise PermanentError(f"{self.place}: {status} {why}")
        if text:
            try:
                return whole.decode()
            except UnicodeDecodeError:
                raise UnknownSchema("it is not UTF-8") from None
        try:
            return json.loads(whole)
        except (ValueError, RecursionError):
            raise PermanentError(f"{self.place}: its answer is none of a schema registry") from None

    def _missing(self, held: bytes, why: str) -> None:
        """Look whether a 404 is the registry's own, of a schema or subject that is not there."""
        try:
            told = json.loads(held)
        except (ValueError, RecursionError):
            # What stands before it has no registry at the moment, or never.
            raise TransientError(f"{self.place}: 404 {why}") from None
        if isinstance(told, dict) and (
            told.get("error_code") in _NOT_THERE
            or str(told.get("name", "")).endswith("NotFoundException")
        ):
            return
        raise PermanentError(f"{self.place}: 404 {why}: is the path of the `url` right?")

    def _failure(self, error: Exception) -> ExternalError:
        """Return what went wrong, in words of ours: the library's may have the address and a password."""
        causes: list[BaseException] = [error]
        while (inner := causes[-1].__cause__ or causes[-1].__context__) is not None:
            causes.append(inner)
        why = type(error).__name__
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return PermanentError(
                    f"{self.place}: its certificate is not good: {cause.verify_message}"
                )
            if isinstance(cause, OSError) and cause.strerror:
                why = f"{type(error).__name__}: {cause.strerror}"
        if isinstance(error, httpx.HTTPError) and not isinstance(
            error, httpx.LocalProtocolError | httpx.UnsupportedProtocol
        ):
            return TransientError(f"{self.place}: {why}")
        return PermanentError(f"{self.place}: {why}")


class _Conflict(NamedTuple):
    why: str


def _body(schema: Schema) -> dict[str, Any]:
    kind = {} if schema.kind in ("", "AVRO") else {"schemaType": schema.kind}
    references = [
        {"name": each.name, "subject": each.subject, "version": int(each.version)}
        for each in schema.references
    ]
    return {"schema": schema.text, **kind, **({"references": references} if references else {})}


def _schema(found: Any) -> Schema | None:
    if found is None:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        raise UnknownSchema("its schema is no text")
    kind = str(found.get("schemaType") or "AVRO")
    return Schema(found["schema"], kind, _references(found.get("references"), "subject"))


def _references(told: Any, subject: str) -> tuple[Reference, ...]:
    """Return what a registry says that a schema refers to.

    Args:
        subject: the key of a reference's subject.

    Raises:
        UnknownSchema: it says nothing of the kind.
    """
    if told is None:
        return ()
    found = []
    for each in told if isinstance(told, list) else [told]:
        if not isinstance(each, dict) or not isinstance(each.get(subject), str):
            raise UnknownSchema("what it refers to is not told")
        group = None if subject == "subject" else str(each.get("groupId") or "default")
        name, version = str(each.get("name", "")), str(each.get("version", ""))
        found.append(Reference(name, each[subject], version, group))
    return tuple(found)


def _number(found: Any, place: str, key: str = "id") -> int:
    number = found.get(key) if isinstance(found, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
        raise PermanentError(f"{place}: its answer has no {key}")
    return number


def _told(held: bytes) -> str:
    """Return what an answer says, short."""
    try:
        found = json.loads(held)
        text = found.get("message") or found.get("title") if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        text = None
    return str(text or held[:300].decode(errors="replace")).strip()[:1000]
