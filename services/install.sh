#!/usr/bin/env bash
# Installs the servers that tests start; does nothing for those that are there. Tests whose server is
# missing skip loudly, or fail under MAINSTEM_REQUIRE_SERVICES.
set -euo pipefail
cd "$(dirname "$0")"

# At once, for most of it is waiting for registries. What two of them need first.
./debian.sh &
fetching=($!)
./node.sh >/dev/null
for each in kafka kinesis mysql postgresql debezium opensearch elasticmq artemis pulsar pubsub protobuf apicurio; do
  "./$each.sh" &
  fetching+=($!)
done
for each in "${fetching[@]}"; do wait "$each"; done
