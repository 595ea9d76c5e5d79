"""`make release-check`: what would be published, looked at and used as a stranger would.

1. Every distribution is built, as a wheel and as sources.
2. `twine check --strict` passes; each wheel has its licence, `py.typed`, a README, and only its package.
3. Each wheel is installed alone into an environment of its own, with what its metadata ask for; there
   every word that it brings is shown, and every module of it is imported that needs no test kit.

With names of distributions as arguments, the third step is for these alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent.parent
DIST = ROOT / "dist"
#: Run in the environment of a wheel, with the distribution's name.
USED = """
import pkgutil, subprocess, sys
from importlib import import_module
from importlib.metadata import distribution

found = distribution(sys.argv[1])
words = {e.name for e in found.entry_points if e.group in GROUPS}
for word in sorted(words):
    command = [sys.executable, "-m", "mainstem", "plugins", "show", word]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode or "broken:" in said.stdout:
        sys.exit(f"{word}: {said.stdout}{said.stderr}")
package = import_module(sys.argv[1].replace("-", "_"))
modules = 0
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not {"testing", "templates", "__main__"} & set(module.name.split(".")):
        import_module(module.name)
        modules += 1
print(f"{len(words)} words, {modules} modules")
"""


def say(*command: str | Path) -> str:
    """Run a command and return what it printed; end with what it said if it failed."""
    done = subprocess.run(  # noqa: S603  # what is said here
        [*map(str, command)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def look(wheel: Path) -> str:
    """Look at what is in a wheel; return the distribution's name, or end with what is wrong."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(archive.read(metadata).decode())
    name = str(told["Name"])
    package = name.replace("-", "_")
    wrong = [
        what
        for what, right in {
            "no licence": told["License-Expression"] == "Apache-2.0"
            and any(each.endswith("licenses/LICENSE") for each in names),
            "no py.typed": f"{package}/py.typed" in names,
            "no README": len(told.get_payload()) > 200,
            "no classifiers": len(told.get_all("Classifier", [])) > 3,
            "no bound of Python": told["Requires-Python"] == ">=3.11",
            "another package": {each.split("/")[0] for each in names}
            == {package, metadata.split("/")[0]},
        }.items()
        if not right
    ]
    if wrong:
        sys.exit(f"{wheel.name}: {', '.join(wrong)}")
    return name


def use(uv: Path, name: str, folder: Path) -> None:
    """Install a distribution alone, and use what it brings."""
    sys.path.insert(0, str(ROOT / "packages/core/src"))
    from mainstem.discovery import GROUPS

    python = folder / name / "bin/python"
    say(uv, "venv", "--quiet", "--python", sys.executable, folder / name)
    # By these files alone: nobody else's package of the same name can come in their place.
    wheels = {path.name.split("-")[0].replace("_", "-"): path for path in DIST.glob("*.whl")}
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{its} @ {path.as_uri()}\n" for its, path in wheels.items()))
    say(uv, "pip", "install", "--quiet", "--python", python, "-c", constraints, name)
    program = f"GROUPS = {sorted(GROUPS.values())!r}\n{USED}"
    print(f"{name:40} {say(python, '-c', program, name).strip()}", flush=True)


def main() -> None:
    """Check all of it."""
    uv = ROOT / ".tools/bin/uv"
    shutil.rmtree(DIST, ignore_errors=True)
    say(uv, "build", "--quiet", "--all-packages", "--out-dir", DIST)
    files = sorted(path for path in DIST.iterdir() if path.suffix in (".whl", ".gz"))
    say(uv, "tool", "run", "--quiet", "twine", "check", "--strict", *files)
    names = [look(wheel) for wheel in sorted(DIST.glob("*.whl"))]
    print(f"{len(files)} files of {len(names)} distributions are right")
    with tempfile.TemporaryDirectory(prefix="mainstem-release-") as folder:
        for name in sys.argv[1:] or names:
            use(uv, name, Path(folder))


if __name__ == "__main__":
    main()
