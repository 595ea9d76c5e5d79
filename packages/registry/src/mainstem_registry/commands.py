"""`mainstem schemas`: schemas of a registry, as files for documents. Never imports pyspark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from mainstem import PipelineError
from pydantic import ValidationError

from mainstem_registry.framing import UnknownSchema
from mainstem_registry.options import RegistryOptions
from mainstem_registry.references import referred

if TYPE_CHECKING:
    from mainstem_registry.client import Client, Schema

_AVRO = "AVRO"

Registry = Annotated[
    str,
    typer.Option(
        "--registry",
        envvar="MAINSTEM_REGISTRY",
        show_envvar=True,
        help="Where the registry's API is, http://user:password@host:port/path.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(envvar="MAINSTEM_REGISTRY_TOKEN", show_envvar=True, help="A bearer token."),
]

Ca = Annotated[
    Path | None,
    typer.Option(help="Certificates (PEM) that the registry's must be signed by."),
]


def pull(
    subject: Annotated[str, typer.Argument(help="The subject, such as orders-value.")],
    file: Annotated[Path, typer.Argument(help="Where its latest schema goes.")],
    registry: Registry,
    token: Token = None,
    ca: Ca = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail when the file is another.")
    ] = False,
) -> None:
    """Write a subject's latest schema into a file, for `schema_file`, and those that it refers to.

    A plan then needs no registry, and a change of the schema is seen in the file's history.

    \b
    mainstem schemas pull orders-value order.avsc --registry http://localhost:8081
    mainstem schemas pull orders-value order.avsc --check
    """  # noqa: D301
    with _client(registry, token, ca) as client:
        try:
            found = client.latest(subject)
            if found is None:
                near = _near(subject, client.subjects())
                raise PipelineError(f"{client.place}: there is no subject {subject}{near}")
            named = referred(found, client.referred)
        except UnknownSchema as error:
            raise PipelineError(f"{client.place}: {error}") from None
    others = {
        _path(file.parent, name, found.kind, client.place): its for name, its in named.items()
    }
    if file in others:
        raise PipelineError(f"{subject} refers to {file.name}: write it into another file")
    _write(file, found, f"schema of {subject}", check=check)
    for path, schema in others.items():
        _write(path, schema, f"schema that {subject} refers to", check=check, folders=True)


def _path(folder: Path, name: str, kind: str, place: str) -> Path:
    """Return the file of a schema to which another refers.

    Raises:
        PipelineError: its name is that of no file beneath the folder.
    """
    file = f"{name}.avsc" if kind == _AVRO else name
    parts = Path(file).parts
    if not parts or ".." in parts or Path(file).is_absolute():
        raise PipelineError(f"{place}: it refers to {name!r}, which is no file's name")
    return folder / file


def _write(file: Path, schema: Schema, what: str, *, check: bool, folders: bool = False) -> None:
    """Write a schema into a file, in new folders if it may be; or compare it."""
    text = schema.text if schema.text.endswith("\n") else schema.text + "\n"
    try:
        if file.exists() and file.read_bytes() == text.encode():
            typer.echo(f"{file}: as the registry has it")
        elif check:
            raise PipelineError(f"{file} is not the latest {what}")
        else:
            if folders:
                file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
            typer.echo(f"{file}: {what}")
    except OSError as error:
        raise PipelineError(f"{file}: {error.strerror}") from None


def subjects(registry: Registry, token: Token = None, ca: Ca = None) -> None:
    """Print the registry's subjects."""
    with _client(registry, token, ca) as client:
        for subject in sorted(client.subjects()):
            typer.echo(subject)


def _client(registry: str, token: str | None, ca: Path | None) -> Client:
    from mainstem_registry.client import Client

    try:
        tls = None if ca is None else {"ca": str(ca.absolute())}
        options = RegistryOptions.model_validate({"url": registry, "token": token, "tls": tls})
    except ValidationError as error:
        first = error.errors()[0]
        name = "--token" if "token" in first["loc"] else "--registry"
        raise PipelineError(f"{name}: {first['msg']}") from None
    return Client(options)


def _near(subject: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(subject, names, 1)
    return f"; the nearest is {near[0]}" if near else ""


app = typer.Typer(help="Schemas of a registry, as files for documents.", no_args_is_help=True)
app.command()(pull)
app.command()(subjects)
