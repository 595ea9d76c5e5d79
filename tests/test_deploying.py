"""What `contrib` has for running pipelines as services: it says what the programs that read it take."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from mainstem.cli.app import app
from mainstem.plan.build import make_plan
from ruamel.yaml import YAML
from typer.main import get_command

ROOT = Path(__file__).parent.parent
CONTAINER = (ROOT / "contrib/container/Containerfile").read_text()
UNIT = ROOT / "contrib/systemd/mainstem@.service"


def run_options(arguments: list[str]) -> dict[str, Any]:
    """Return what `mainstem run` makes of arguments; it refuses those that it does not have."""
    assert arguments[0] == "run"
    command: Any = get_command(app)
    run = command.commands["run"]
    with run.make_context("run", list(arguments[1:])) as context:
        return dict(context.params)


def unit() -> ConfigParser:
    found = ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[method-assign,assignment]
    found.read(UNIT)
    return found


def test_the_unit_is_one_and_calls_what_there_is(tmp_path):
    """Pass: systemd takes it, and its command is one of ours; the signal is for that process alone."""
    service = unit()["Service"]
    program, *arguments = service["ExecStart"].split()
    assert program.endswith("/mainstem")
    assert run_options(arguments)["metrics"] == "127.0.0.1:9100"
    assert service["KillMode"] == "mixed"
    assert service["RestartPreventExitStatus"].split() == ["2", "3"]
    if shutil.which("systemd-analyze"):
        file = tmp_path / "mainstem@orders.service"
        file.write_text(UNIT.read_text().replace(program, sys.executable))
        command = ["systemd-analyze", "verify", "--man=no", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not re.search(r"mainstem@.*(Unknown|Invalid|Failed)", done.stderr), done.stderr


def test_the_manifest_has_a_right_document_and_keeps_its_checkpoint(tmp_path):
    """Pass: the document is right and keeps all in the volume; one pod, which has time to end."""
    objects = list(YAML(typ="safe").load_all(ROOT / "contrib/kubernetes/pipeline.yaml"))
    by_kind = {each["kind"]: each for each in objects}
    file = tmp_path / "pipeline.yaml"
    file.write_text(by_kind["ConfigMap"]["data"]["pipeline.yaml"])
    plan = make_plan(file)
    spec = by_kind["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 300
    [container] = pod["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert plan.checkpoint.is_relative_to(mounts["data"])
    assert {each["name"] for each in pod["volumes"]} == set(mounts)
    told = run_options(container["args"])
    assert str(told["file"].parent) == mounts["document"]
    assert str(container["ports"][0]["containerPort"]) in told["metrics"]
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"


def test_the_image_runs_what_there_is():
    """Pass: its command is one of ours, its extras are the core's, its user is nobody special."""
    [command] = re.findall(r"^CMD \[(.+)\]$", CONTAINER, re.MULTILINE)
    assert run_options([part.strip(' "') for part in command.split(",")])["metrics"]
    [extras] = re.findall(r"^ARG EXTRAS=(.+)$", CONTAINER, re.MULTILINE)
    core = (ROOT / "packages/core/pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in core for extra in extras.split(","))
    assert CONTAINER.index("USER mainstem") < CONTAINER.index("ENTRYPOINT")


@pytest.mark.slow
def test_the_images_steps_install_what_it_runs(tmp_path):
    """Pass: done plainly, with this machine's Python: the words of the extras are there, of the wheels' version."""
    dist, target = tmp_path / "dist", tmp_path / "mainstem"
    uv = ROOT / ".tools/bin/uv"
    command = [uv, "build", "--quiet", "--all-packages", "--wheel", "--out-dir", dist]
    subprocess.run(command, check=True, cwd=ROOT)
    step = next(
        part
        for part in re.findall(r"^RUN (.+?[^\\])$", CONTAINER, re.MULTILINE | re.DOTALL)
        if "constraints.txt" in part
    ).replace("\\\n", " ")
    [extras] = re.findall(r"^ARG EXTRAS=(.+)$", CONTAINER, re.MULTILINE)
    subprocess.run([sys.executable, "-m", "venv", target], check=True)
    step = step.replace("/tmp/dist", str(dist)).replace("/opt/mainstem", str(target))
    subprocess.run(
        ["bash", "-euc", step], check=True, env={"EXTRAS": extras, "PATH": "/usr/bin:/bin"}
    )
    found = subprocess.run(
        [target / "bin/mainstem", "plugins", "list"], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"operator +aggregate +mainstem-operators-windows", found)
    assert re.search(r"sink +sql +mainstem-database-sql", found)
    assert not dist.exists()
