#!/usr/bin/env bash
# Sees that there are a C compiler and the headers of a Python, for libraries that PyPI has no wheels of; as
# root it installs them. Prints which libraries uv is to leave out, where it can't.
#   services/compiler.sh PYTHON
set -euo pipefail

there() {
  command -v cc >/dev/null && echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1 &&
    "$1" -c 'import sys, sysconfig, pathlib; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'
}

if ! there "$1" && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing gcc libc6-dev python3-dev" >&2
  { apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-dev; } >&2 || true
fi
if ! there "$1"; then
  echo "NOT INSTALLED (needs a C compiler and Python's headers: apt-get install gcc libc6-dev python3-dev): AMQP 1.0's library" >&2
  echo "--no-install-package python-qpid-proton"
fi
