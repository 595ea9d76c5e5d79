"""The documentation as a website: every page is in its navigation, and no link leads nowhere."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "contrib/site/build.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    site = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, BUILD, site]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def test_every_page_is_reached(site):
    """Pass: each page of the repository's docs is built, and named by the navigation of the first one."""
    first = (site / "index.html").read_text()
    for pattern in ("docs/*.md", "packages/*/README.md", "examples/*/README.md"):
        for page in ROOT.glob(pattern):
            place = page.relative_to(ROOT).with_suffix(".html")
            place = place.with_name("index.html") if place.name == "README.html" else place
            assert (site / place).exists(), place
            assert f'href="./{place}"' in first, place


def test_nothing_comes_from_another_host(site):
    """Pass: scripts, styles, fonts and pictures are the site's own."""
    for page in (site / "index.html", site / "docs/components.html"):
        found = re.findall(r'(?:src|href)="(https?://[^"]+)"', page.read_text())
        scripts = [url for url in found if re.search(r"\.(js|css|woff2?|png|svg)\b", url)]
        assert scripts == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    """Pass: a page with one does not go through; so the test above can fail."""
    program = runpy.run_path(str(BUILD))
    page = ROOT / "docs/time.md"
    program["lay"](tmp_path, [page])
    assert (tmp_path / "docs/time.md").read_text() == page.read_text()
    (tmp_path / "docs/time.md").write_text("[there](nowhere.md)")
    (tmp_path / "site.yml").write_text("site_name: x\ndocs_dir: docs\nsite_dir: site\n")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", tmp_path / "site.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr
