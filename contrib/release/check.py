"""`make release-check`: what would be published, looked at and used as a stranger would.

1. Every distribution is built, as a wheel and as sources.
2. `twine check --strict` passes; each wheel has its licence, `py.typed`, a README, and only its package.
3. Each wheel is installed alone into an environment of its own, with what its metadata ask for; there
   every word that it brings is shown. Then, with what its own extras ask for, every module of it is
   imported that needs no test kit.

With names of distributions as arguments, the third step is for these alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent.parent
DIST = ROOT / "dist"
#: Run in the environment of a wheel, with the distribution's name.
WORDS = """
import subprocess, sys
from importlib.metadata import distribution

found = distribution(sys.argv[1])
words = {e.name for e in found.entry_points if e.group in GROUPS}
for word in sorted(words):
    command = [sys.executable, "-m", "mainstem", "plugins", "show", word]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode or "broken:" in said.stdout:
        sys.exit(f"{word}: {said.stdout}{said.stderr}")
print(f"{len(words)} words")
"""
#: The same, with its extras.
MODULES = """
import pkgutil, sys
from importlib import import_module

package = import_module(sys.argv[1].replace("-", "_"))
modules = 0
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not {"testing", "templates", "__main__"} & set(module.name.split(".")):
        import_module(module.name)
        modules += 1
print(f"{modules} modules")
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
    told = metadata_of(wheel)
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
            == {package, f"{package}-{told['Version']}.dist-info"},
        }.items()
        if not right
    ]
    if wrong:
        sys.exit(f"{wheel.name}: {', '.join(wrong)}")
    return name


def metadata_of(wheel: Path) -> Message:
    """Return what a wheel tells of itself."""
    with ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def use(uv: Path, name: str, folder: Path) -> None:
    """Install a distribution alone, and use what it brings."""
    sys.path.insert(0, str(ROOT / "packages/core/src"))
    from mainstem.discovery import GROUPS

    python = folder / name / "bin/python"
    say(uv, "venv", "--quiet", "--python", sys.executable, folder / name)
    # By these files alone: nobody else's package of the same name can come in their place.
    found = [*DIST.glob("*.whl"), *folder.glob("*.whl")]
    wheels = {path.name.split("-")[0].replace("_", "-"): path for path in found}
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{its} @ {path.as_uri()}\n" for its, path in wheels.items()))
    install = [uv, "pip", "install", "--quiet", "--python", python, "-c", constraints]
    say(*install, name)
    program = f"GROUPS = {sorted(GROUPS.values())!r}\n{WORDS}"
    words = say(python, "-c", program, name).strip()
    if extras := own_extras(wheels[name]):
        say(*install, f"{name}[{','.join(extras)}]")
    print(f"{name:40} {words}, {say(python, '-c', MODULES, name).strip()}", flush=True)


def build_spark(uv: Path, folder: Path) -> None:
    """Make a wheel of PySpark, which is published as sources of half a gigabyte, once for all."""
    say(uv, "venv", "--quiet", "--seed", "--python", sys.executable, folder / "pip")
    pip = folder / "pip/bin/pip"
    say(pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, "pyspark>=4.2")


def own_extras(wheel: Path) -> list[str]:
    """Return the extras of a wheel: but for those of the core, which are plugins, and for test kits."""
    told = metadata_of(wheel)
    extras = [] if told["Name"] == "mainstem" else told.get_all("Provides-Extra", [])
    return [extra for extra in extras if extra != "testing"]


def main() -> None:
    """Check all of it."""
    uv = ROOT / ".tools/bin/uv"
    shutil.rmtree(DIST, ignore_errors=True)
    say(uv, "build", "--quiet", "--all-packages", "--out-dir", DIST)
    files = sorted(path for path in DIST.iterdir() if path.suffix in (".whl", ".gz"))
    say(uv, "tool", "run", "--quiet", "twine", "check", "--strict", *files)
    names = [look(wheel) for wheel in sorted(DIST.glob("*.whl"))]
    print(f"{len(files)} files of {len(names)} distributions are right")
    with tempfile.TemporaryDirectory(prefix="mainstem-release-") as temporary:
        folder = Path(temporary)
        build_spark(uv, folder)
        for name in sys.argv[1:] or names:
            use(uv, name, folder)
            shutil.rmtree(folder / name)


if __name__ == "__main__":
    main()
