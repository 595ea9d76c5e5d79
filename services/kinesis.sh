#!/usr/bin/env bash
# Fetches two emulators of Kinesis, kinesis-local and kinesalite, from npm's registry into .tools/kinesis.
# Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

emulators=(kinesis-local@0.6.2 kinesalite@3.3.3)
# AWS's own library that takes aggregated records apart, for a reader that is none of ours.
reader=aws-kinesis-agg@4.2.8
home=.tools/kinesis
wanted="${emulators[*]} $reader"
npm=$(services/node.sh)
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

rm -rf "$home"
mkdir -p "$home"
# shown COMMAND...: what it prints is shown if it fails.
shown() { "$@" >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }; }

echo "fetching ${emulators[*]}"
# Optional dependencies would be compiled here: kinesalite's are for data that outlive it, which no test needs.
printf '{"private": true}\n' >"$home/package.json"
shown "$npm" install --prefix "$home" --save-exact --omit=dev --omit=optional --ignore-scripts \
  --no-audit --no-fund --no-update-notifier "${emulators[@]}" "$reader"
rm -f "$home/log"
echo "$wanted" >"$home/fetched"
