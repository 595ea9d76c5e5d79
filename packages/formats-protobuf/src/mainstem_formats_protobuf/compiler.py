"""Files of protoc: descriptor sets as they are, and .proto files by protoc."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: How large a descriptor set may be.
_MOST_BYTES = 16 * 2**20
_SECONDS = 60


def load(path: Path, folders: Sequence[Path] = ()) -> bytes:
    """Return the descriptor set of a file, with all that it imports.

    Args:
        path: a .proto file, or a descriptor set.
        folders: in which what a .proto file imports is looked for, beside its own.

    Raises:
        ValueError: it can't be read, or is wrong; says why.
    """
    try:
        if not path.is_file():
            raise ValueError(f"{path} is no file")
        if path.suffix == ".proto":
            return _compiled(path, folders)
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"{path} is larger than {_MOST_BYTES:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"can't read {path}: {error.strerror}") from None


def _compiled(path: Path, folders: Sequence[Path]) -> bytes:
    for folder in folders:
        if ":" in str(folder):
            raise ValueError(f"protoc looks for nothing in a folder with `:` in its name: {folder}")
    if importlib.util.find_spec("grpc_tools") is not None:
        command = [sys.executable, "-m", "grpc_tools.protoc"]
    elif found := shutil.which("protoc"):
        command = [found]
    else:
        raise ValueError(
            f"{path.name} needs protoc: install mainstem-formats-protobuf[protoc], or give a descriptor "
            "set, as `protoc --include_imports --descriptor_set_out` writes it"
        )
    with tempfile.TemporaryDirectory() as made:
        out = Path(made, "set")
        ways = ["--proto_path=.", *(f"--proto_path={folder.absolute()}" for folder in folders)]
        told = [*ways, "--include_imports", f"--descriptor_set_out={out}", path.name]
        try:
            done = subprocess.run(  # noqa: S603 - protoc
                [*command, *told],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                cwd=path.parent,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc took more than {_SECONDS} seconds for {path}") from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise ValueError(f"protoc refuses it: {'; '.join(lines[:8])[:2000]}")
        return out.read_bytes()
