"""What `mainstem doctor` prints: whether this machine can run pipelines, or a certain one.

Reads metadata, folders and Java's own word; starts no Spark and imports none.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

from mainstem.cli.machine import Check, check_machine, split_advice
from mainstem.discovery import GROUPS, Word, load_command
from mainstem.errors import MainstemError, PluginError
from mainstem.lineage import Lineage
from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan
from mainstem.registry import Registry, check_core_version
from mainstem.run import jars
from mainstem.run.session import settings

_GIB = 2**30
_LITTLE_SPACE = 1 * _GIB
#: So many seconds an external system may take to answer a connection.
_PATIENCE = 3
#: File systems on which a checkpoint does not last, and why.
_TRANSIENT = {
    "tmpfs": "a restart of the machine empties it",
    "ramfs": "a restart of the machine empties it",
    "overlay": "it is removed with its container",
}


def doctor(file: Path | None = None) -> tuple[str, int]:
    """Return the text of `mainstem doctor`, and its exit code.

    The code is 0 if nothing is in the way of a run; 2 or 3 if the document of `file` is, as for
    every other command; else 4.
    """
    checks = examine(file)
    code = code_of(checks)
    end = "A run would fail." if code else "Nothing is in the way of a run."
    steps = [f"{check.name}: {check.next_step}" for check in checks if check.next_step]
    advice = "".join(f"  {step}\n" for step in steps)
    return f"{_table(checks)}\n" + (f"What to do:\n{advice}\n" if advice else "") + f"{end}\n", code


def code_of(checks: Iterable[Check]) -> int:
    """Return the exit code of what was found; 0 if nothing is in the way of a run."""
    return min((check.exit_code for check in checks if check.state == "missing"), default=0)


def examine(file: Path | None = None) -> list[Check]:
    """Look at the machine and at the plugins; with `file`, at what its document needs.

    No text holds the value of a reference in the document, but for the places of its servers.
    """
    registry = Registry()
    if file is None:
        found = [*_clashes(registry), *_misfits(registry), *_imports(registry, registry.words)]
        return [*check_machine(), *(found or [_plugins(registry.words)])]
    plugins = [*_clashes(registry), *_misfits(registry)]
    try:
        plan = make_plan(file, registry)
    except MainstemError as error:
        return [*check_machine(), *plugins, _wrong(file, error)]
    checks = [*check_machine([plan.checkpoint]), *plugins, *_needed(file, plan, registry)]
    clean = plan.scrubber.clean
    cleaned = [replace(c, found=clean(c.found), next_step=clean(c.next_step)) for c in checks]
    # Places have no logins, and may be all of what was given as a secret.
    return [*cleaned, *check_places(plan)]


def _needed(file: Path, plan: Plan, registry: Registry) -> Iterator[Check]:
    """Yield the checks of what a right document needs."""
    yield _plugins(_used(plan, registry))
    yield check_folder("checkpoint", plan.checkpoint)
    try:
        conf = settings(plan)
    except MainstemError as error:
        yield _wrong(file, error)
        return
    yield Check("document", "ok", f"{file} ({len(plan.nodes)} nodes)")
    yield from check_jars(conf)


def _wrong(file: Path, error: MainstemError) -> Check:
    step = f"Mend it until this says that it is right: mainstem validate {file}"
    return Check("document", "missing", str(error), step, error.exit_code)


# -- plugins --------------------------------------------------------------------------------


def _clashes(registry: Registry) -> Iterator[Check]:
    """Yield a warning for each word that several distributions bring."""
    owners: dict[tuple[str, str], list[Word]] = defaultdict(list)
    for word in registry.words:
        owners[word.kind, word.name].append(word)
    for (kind, name), words in owners.items():
        names = sorted({word.distribution for word in words})
        if len(names) > 1:
            step = f"Write {' or '.join(f'`use: {owner}:{name}`' for owner in names)}."
            if kind == "command":
                step = f"Remove one: pip uninstall {names[-1]}"
            yield Check(f"{kind} {name}", "warning", f"brought by {' and '.join(names)}", step)


def _misfits(registry: Registry) -> Iterator[Check]:
    """Yield a warning for each distribution that is made for another core."""
    for word in {word.distribution: word for word in registry.words}.values():
        try:
            check_core_version(word)
        except PluginError as error:
            yield _broken(word, error)


def _imports(registry: Registry, words: Iterable[Word]) -> Iterator[Check]:
    """Yield a warning for each distribution with a word that can't be had, though the core fits."""
    misfits = {check.name for check in _misfits(registry)}
    told: set[str] = set()
    for word in words:
        if word.distribution in told or _title(word) in misfits:
            continue
        try:
            _load(registry, word)
        except PluginError as error:
            told.add(word.distribution)
            yield _broken(word, error)


def _load(registry: Registry, word: Word) -> None:
    if word.kind in GROUPS:
        registry.component(word.kind, f"{word.distribution}:{word.name}")
        return
    load_command(word)


def _broken(word: Word, error: PluginError) -> Check:
    found, step = split_advice(str(error))
    step = step or f"Install another version: pip install --upgrade {word.distribution}"
    return Check(_title(word), "warning", found, step)


def _title(word: Word) -> str:
    return f"plugin {word.distribution}"


def _plugins(words: Iterable[Word]) -> Check:
    names = sorted({f"{word.distribution} {word.version}" for word in words})
    return Check("plugins", "ok", ", ".join(names))


def _used(plan: Plan, registry: Registry) -> list[Word]:
    """Return the words of a document's nodes; all of them have been imported to make the plan."""
    nodes = plan.written.values()
    words = [registry.find(node.kind, f"{node.distribution}:{node.word}") for node in nodes]
    return [*words, registry.find("state store", plan.state_word)]


# -- folders and jars -----------------------------------------------------------------------


def check_folder(name: str, folder: Path) -> Check:
    """Check that a folder, or the nearest one above it that exists, can be written and has space."""
    above = (folder, *folder.absolute().parents)
    nearest = next(path for path in above if os.access(path, os.F_OK))
    choose = f"choose another folder under `{name}:`"
    if not nearest.is_dir():
        found = f"{folder}: {nearest} is a file"
        return Check(name, "missing", found, f"Move the file away, or {choose}.")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            free = shutil.disk_usage(nearest).free
    except OSError as error:
        found = f"{folder}: can't write into {nearest}: {error.strerror}"
        own = "chown -R" if nearest == folder else "install -d -o"
        step = f"sudo {own} {os.getuid()} '{folder}', or {choose}."
        return Check(name, "missing", found, step)
    system = _file_system(nearest)
    found = f"{folder} ({system}, {free / _GIB:.1f} GiB free)"
    if system in _TRANSIENT:
        step = f"If it is to last, {choose}."
        return Check(name, "warning", f"{found}: {_TRANSIENT[system]}", step)
    if free < _LITTLE_SPACE:
        return Check(name, "warning", found, f"Make space, or {choose}.")
    return Check(name, "ok", found)


def _file_system(folder: Path) -> str:
    """Return the type of the file system that a folder is on, as far as the system tells."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "file system unknown"
    types = {line.split(" ")[1].replace("\\040", " "): line.split(" ")[2] for line in lines}
    above = (folder.resolve(), *folder.resolve().parents)
    return next((types[str(path)] for path in above if str(path) in types), "file system unknown")


def check_jars(settings: Mapping[str, str]) -> list[Check]:
    """Check the jars that a session with these settings loads: paths, and Maven coordinates."""
    files = jars.listed(settings, jars.PATHS)
    packages = jars.listed(settings, jars.PACKAGES)
    caches = _caches(settings.get("spark.jars.ivy", ""))
    return [*map(_jar, files), *(_package(package, caches) for package in packages)]


def _jar(jar: str) -> Check:
    parts = urlsplit(jar)
    if parts.scheme not in ("", "file", "local"):
        return Check("jar", "info", f"{jar} is fetched at each start")
    if Path(parts.path).is_file():
        return Check("jar", "ok", jar)
    step = "Put the jar there, or mend the path; a relative one is relative to the working folder."
    return Check("jar", "missing", f"{jar} does not exist", step)


def _package(coordinate: str, caches: list[Path]) -> Check:
    parts = coordinate.replace("/", ":").split(":")
    if len(parts) != 3 or not all(parts):
        step = "Write it as group:artifact:version."
        return Check("jar", "missing", f"{coordinate} is no Maven coordinate", step)
    group, artifact, release = parts
    file = f"{artifact}-{release}.jar"
    places = (
        f"jars/{group}_{file}",
        f"cache/{group}/{artifact}/jars/{file}",
        f"cache/{group}/{artifact}/bundles/{file}",
        f"repository/{group.replace('.', '/')}/{artifact}/{release}/{file}",
    )
    for cache in caches:
        for place in places:
            if (cache / place).is_file():
                return Check("jar", "ok", f"{coordinate} ({cache / place})")
    step = (
        "Let this machine reach a Maven repository then (`spark.jars.repositories` names others)."
    )
    return Check("jar", "info", f"{coordinate} will be downloaded at the first run", step)


def _caches(ivy: str) -> list[Path]:
    """Return the folders in which Spark's resolver keeps jars, and Maven's own."""
    home = Path.home()
    return [Path(ivy)] if ivy else [*sorted(home.glob(".ivy2*")), home / ".m2"]


# -- external systems -----------------------------------------------------------------------


def check_places(plan: Plan) -> list[Check]:
    """Check that somebody answers where the sources and sinks of a plan say that they read and write.

    Connections are made and closed: nothing is said, and no login is tried. Of several servers the first
    is asked. A run may be elsewhere, so that what does not answer is a warning.
    """
    lineage = Lineage(plan)
    found = [
        *(each.datasets for each in lineage.reads),
        *(each.datasets for each in lineage.writes),
    ]
    places = sorted({dataset.namespace for datasets in found for dataset in datasets})
    with ThreadPoolExecutor(8) as threads:
        return [check for check in threads.map(_place, places) if check is not None]


def _place(namespace: str) -> Check | None:
    """Return the check of a system, `kafka://broker:9092`; None of what is no server."""
    parts = urlsplit(namespace)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or not port:
        return None
    try:
        socket.create_connection((host, port), _PATIENCE).close()
    except OSError as error:
        step = "Start it, or see why this machine can't reach it (address, firewall)."
        why = error.strerror or str(error)
        return Check("connection", "warning", f"{namespace}: {why}", step)
    return Check("connection", "ok", f"{namespace} answers")


# -- text -----------------------------------------------------------------------------------


def _table(checks: list[Check]) -> str:
    """Return a line for each check; what is found is wrapped, never cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        table.add_row(*map(Text, (check.state, check.name, check.found)))
    width = max(shutil.get_terminal_size((100, 24)).columns, 60)
    text = StringIO()
    Console(file=text, width=width, color_system=None).print(table)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())
