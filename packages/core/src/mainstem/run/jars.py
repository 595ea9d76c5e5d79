"""The jars that a session is to have: found missing before Spark starts, or in what it says then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from mainstem.errors import MachineError

PATHS, PACKAGES = "spark.jars", "spark.jars.packages"
#: How Spark's resolver tells what it could not find: `group#artifact;version: why`.
_UNRESOLVED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): ([^\],\n:]+)")
_STEPS = (
    "Let this machine reach a Maven repository that has them (`spark.jars.repositories` under "
    "`spark.conf` names others), or name other versions as `packages`, or files as `jars`, where the "
    "document uses the plugin."
)


def check_files(settings: Mapping[str, str]) -> None:
    """Find jars that are named by paths and are not there.

    Raises:
        MachineError: names them.
    """
    places = [(jar, urlsplit(jar)) for jar in listed(settings, PATHS)]
    local = [(jar, Path(url.path)) for jar, url in places if url.scheme in ("", "file", "local")]
    if missing := [jar for jar, path in local if not path.is_file()]:
        raise MachineError(f"jars are not there: {', '.join(missing)}. Mend the paths.")


def unresolved(lines: Iterable[str]) -> MachineError | None:
    """Return the error that says which jars Spark could not get, given what it said; None if none."""
    found = dict.fromkeys(
        f"{group}:{artifact}:{version} ({why.strip()})"
        for line in lines
        for group, artifact, version, why in _UNRESOLVED.findall(line)
    )
    return MachineError(f"jars can't be had: {', '.join(found)}. {_STEPS}") if found else None


def check_present(wanted: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Hold a session that was there before against the jars that a plan needs: it takes none later.

    Another version of an artifact does: whoever made the session chose it.

    Args:
        wanted: the settings of the plan's session.
        present: those of the session that is there.

    Raises:
        MachineError: some are missing; names them.
    """
    coordinates = listed(present, PACKAGES)
    artifacts = {artifact(coordinate) for coordinate in coordinates}
    files = {Path(urlsplit(jar).path).name for jar in listed(present, PATHS)}

    def there(name: str) -> bool:
        return name in artifacts or any(file.startswith(f"{name}-") for file in files)

    missing = [jar for jar in listed(wanted, PATHS) if Path(urlsplit(jar).path).name not in files]
    missing += [name for name in listed(wanted, PACKAGES) if not there(artifact(name))]
    if missing:
        raise MachineError(
            f"the Spark session that is there already lacks jars: {', '.join(missing)}. End it "
            "(`spark.stop()`) and let the run start its own, or start it with them."
        )


def artifact(coordinate: str) -> str:
    """Return the artifact's name in `group:artifact:version`."""
    return coordinate.split(":")[1] if coordinate.count(":") else coordinate


def listed(settings: Mapping[str, str], key: str) -> list[str]:
    """Return the entries of a setting that lists jars."""
    return [part.strip() for part in settings.get(key, "").split(",") if part.strip()]
