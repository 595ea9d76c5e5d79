"""`mainstem forget`: keys of subjects are destroyed from the command line. Never imports pyspark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Annotated

import typer
from mainstem import MainstemError, PipelineError
from mainstem.commands import DryRun, File, Set, Yes, agreed, load

from mainstem_operators_privacy.options import KeyOptions, SubjectOptions


def forget(
    file: File,
    subjects: Annotated[
        list[str], typer.Argument(help="Whom to forget, as the document's column says it.")
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
    set_: Set = None,
) -> None:
    """Destroy the keys of subjects, so that nobody can read what was encrypted with them.

    This can't be undone. A subject that has no key yet gets none later. All stores of keys are asked that
    the document names, also while it runs.

    \b
    mainstem forget pipeline.yaml 4711 --dry-run
    mainstem forget pipeline.yaml --yes -- -5
    """  # noqa: D301
    wanted = [_text(subject) for subject in subjects]
    plan = load(file, set_)
    from mainstem_operators_privacy.keys import KeyStore, stores_of

    found = list(
        stores_of(
            node.component.options.keys
            for node in plan.nodes.values()
            if isinstance(node.component.options, SubjectOptions)
        )
    )
    if not found:
        raise PipelineError(
            f"{file} has no `encrypt`, `decrypt` or `forget`, and no keys to destroy"
        )
    failures: list[str] = []
    if not agreed(_effects(found, wanted, failures), yes=yes, dry_run=dry_run):
        if failures:
            raise PipelineError("; ".join(failures))
        return
    failures.clear()  # asked again
    for options in found:
        try:
            with closing(KeyStore(options)) as store:
                count = store.destroy(wanted)
        except MainstemError as error:  # the others are asked all the same
            failures.append(str(error))
            continue
        known = len(dict.fromkeys(wanted))
        typer.echo(f"{options.place}, {options.table}: {count} of {known} keys destroyed")
        if count < known:
            typer.echo(
                "The others had none, and get none any more. Are they written as the column has them?",
                err=True,
            )
    if failures:
        raise PipelineError("; ".join(failures))


def _effects(
    stores: Iterable[KeyOptions], subjects: Sequence[bytes], failures: list[str]
) -> Iterator[str]:
    """Yield what is done in each store; why one can't be asked is added to failures."""
    from mainstem_operators_privacy.keys import KeyStore

    every = len(dict.fromkeys(subjects))
    for options in stores:
        try:
            with closing(KeyStore(options)) as store:
                known = store.known(subjects)
        except MainstemError as error:
            failures.append(str(error))
            yield str(error)
            continue
        told = f"{options.place}, {options.table}: the keys of {known} of {every} subjects are destroyed"
        yield f"{told}; the others have none, and get none any more" if known < every else told


def _text(subject: str) -> bytes:
    try:
        found = subject.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("a subject is text of UTF-8", param_hint="SUBJECTS") from None
    if not found:
        raise typer.BadParameter("a subject is not empty", param_hint="SUBJECTS")
    return found
