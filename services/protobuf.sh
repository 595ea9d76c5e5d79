#!/usr/bin/env bash
# Fetches Java's Protocol Buffers, which read in tests what Mainstem writes. Into .tools/protobuf.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.31.1
exec services/jars.sh .tools/protobuf "$version" "com.google.protobuf:protobuf-java:$version"
