#!/usr/bin/env bash
# Fetches Apache Pulsar's broker with BookKeeper, as tests start it. Into .tools/pulsar.
#
# The list is what jars.sh finds for pulsar-broker, with circe-checksum and cpu-affinity of its BookKeeper,
# less what only functions, other stores of metadata than files, and its tools need.
set -euo pipefail

exec "$(dirname "$0")/jars.sh" .tools/pulsar 4.0.7 services/pulsar.jars
