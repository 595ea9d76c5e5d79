"""`mainstem forget`: keys of subjects are destroyed from the command line. Never imports pyspark."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer
from mainstem import MainstemError, PipelineError
from mainstem.commands import File, Set, load

from mainstem_operators_privacy.options import SubjectOptions


def forget(
    file: File,
    subjects: Annotated[
        list[str], typer.Argument(help="Whom to forget, as the document's column says it.")
    ],
    set_: Set = None,
) -> None:
    """Destroy the keys of subjects, so that nobody can read what was encrypted with them.

    This can't be undone. A subject that has no key yet gets none later. All stores of keys are asked that
    the document names, also while it runs.

    \b
    mainstem forget pipeline.yaml 4711
    mainstem forget pipeline.yaml -- -5
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
    failures = []
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


def _text(subject: str) -> bytes:
    try:
        found = subject.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("a subject is text of UTF-8", param_hint="SUBJECTS") from None
    if not found:
        raise typer.BadParameter("a subject is not empty", param_hint="SUBJECTS")
    return found
