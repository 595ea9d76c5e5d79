"""The example `kinesis-clicks` does what its README says, on an emulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mainstem_broker_kinesis.testing import CREDENTIALS
from mainstem_testkit.pipelines import Process

EXAMPLE = Path(__file__).parents[3] / "examples" / "kinesis-clicks"
COUNT = 1000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_clicks_are_counted_and_purchases_go_on_while_shards_split(
    kinesalite: Any, tmp_path: Path
) -> None:
    """Pass: run, killed and run again, with a split before and one in between: the counts are those of the
    clicks that were put, purchases are all there, each user's in order, and the broken ones are refused."""
    folder = tmp_path / "clicks"
    shutil.copytree(EXAMPLE, folder)
    sys.path.insert(0, str(folder))
    import clicks

    env = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL_KINESIS": kinesalite.url}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(name: str) -> list[dict[str, Any]]:
        files = folder.glob(f"{name}/*/*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    command = ["-m", "mainstem", "run", "clicks.yaml"]
    run("clicks.py", "streams")
    assert "at-least-once" in run("-m", "mainstem", "plan", "clicks.yaml")
    run("clicks.py", "click", str(COUNT))
    run("clicks.py", "split")
    with Process([str(folder / "clicks.yaml")], env) as first:
        first.wait_for(lambda: len(rows("refused")) >= COUNT // 50, 240)
        first.kill()
    run("clicks.py", "split")
    run("clicks.py", "click", str(COUNT), "1", str(COUNT))
    run(*command, "--set", 'trigger={"available_now": true, "flush": true}')

    good = [json.loads(body) for n in range(2 * COUNT) if (body := clicks.click(n))[:1] == b"{"]
    wanted = Counter((c["page"], c["at"][:15]) for c in good)
    found = {
        (r["page"], r["window_start"][:15].replace(" ", "T")): r["clicks"] for r in rows("counts")
    }
    assert found == wanted
    assert len(rows("counts")) == len(found)
    bought = [c for c in good if "cents" in c]
    there = [json.loads(line) for line in run("clicks.py", "purchases").splitlines()]
    for user in {c["user"] for c in bought}:
        mine = [(c["page"], c["cents"]) for c in there if c["user"] == user]
        put = [(c["page"], c["cents"]) for c in bought if c["user"] == user]
        assert list(dict.fromkeys(mine)) == put
    assert len(rows("refused")) >= 2 * COUNT // 50
    assert {r["node"] for r in rows("refused")} == {"click"}
