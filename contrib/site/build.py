"""`make site`: the documentation as a website, in `site/` or the folder that is
named. A link that leads nowhere fails it.

Pages lie as in the repository, so that their links to each other are right as they are. Files that they
link to are copied beside them; a link to a folder becomes one to its README.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGES = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "docs/*.md",
    "docs/design/*.md", "packages/*/README.md", "examples/*/README.md",
)  # fmt: skip
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")


def lay(folder: Path, pages: list[Path]) -> None:
    """Copy pages, and the files that they link to, into a folder, each to its place in the repository."""
    for page in pages:
        target = folder / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)

        def linked(found: re.Match[str], page: Path = page) -> str:
            path = (page.parent / found[2]).resolve()
            if path.is_dir():
                inside = f"{found[2].rstrip('/')}/README.md"
                return f"{found[1]}{inside}{found[3]}" if path / "README.md" in pages else found[0]
            copy = folder / path.relative_to(ROOT)
            if path not in pages and path.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            return found[0]

        target.write_text(_LINK.sub(linked, page.read_text()))


def listed(part: Any, used: set[str]) -> Any:
    """Return a part of the navigation with its patterns replaced by the pages that nothing else names."""
    if isinstance(part, dict):
        return {title: listed(below, used) for title, below in part.items()}
    if not isinstance(part, list):
        return part
    found: list[Any] = []
    for each in part:
        kind, _, pattern = each.partition(" ") if isinstance(each, str) else ("", "", "")
        globs = {"PACKAGES": f"packages/{pattern}/README.md", "EXAMPLES": "examples/*/README.md"}
        globs["DESIGN"] = "docs/design/*.md"
        if kind not in globs:
            found.append(listed(each, used))
            continue
        names = [str(page.relative_to(ROOT)) for page in sorted(ROOT.glob(globs[kind]))]
        fresh = [name for name in names if name not in used]
        used |= set(fresh)
        found += fresh
    return found


def main() -> None:
    """Build the site, and end with the builder's word for how that went."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    pages = sorted({page.resolve() for pattern in PAGES for page in ROOT.glob(pattern)})
    yaml = YAML(typ="safe", pure=True)
    settings = yaml.load(HERE / "site.yml")
    used = set(re.findall(r"[\w/-]+\.md", (HERE / "site.yml").read_text()))
    settings["nav"] = listed(settings["nav"], used)
    with tempfile.TemporaryDirectory(prefix="mainstem-site-") as folder:
        lay(Path(folder, settings["docs_dir"]), pages)
        with Path(folder, "site.yml").open("w") as file:
            yaml.dump(settings, file)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "site.yml"]
        done = subprocess.run(command, check=False, cwd=folder)  # noqa: S603
        if done.returncode == 0:
            shutil.rmtree(site, ignore_errors=True)
            shutil.move(Path(folder, settings["site_dir"]), site)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
