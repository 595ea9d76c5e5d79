"""`mainstem forget`: keys of subjects are destroyed from the command line. Never imports pyspark."""

from __future__ import annotations

from typing import Annotated

import typer
from mainstem import PipelineError
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
    """  # noqa: D301
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
    for options in found:
        store = KeyStore(options)
        try:
            count = store.destroy(subjects)
        finally:
            store.close()
        known = len(dict.fromkeys(subjects))
        typer.echo(f"{options.place}, {options.table}: {count} of {known} keys destroyed")
        if count < known:
            typer.echo("the others had none, and get none any more", err=True)
