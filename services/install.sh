#!/usr/bin/env bash
# Installs the servers that tests start; does nothing for those that are there. Tests whose server is
# missing skip loudly, or fail under MAINSTEM_REQUIRE_SERVICES.
set -euo pipefail
cd "$(dirname "$0")"

# At once, for most of it is waiting for registries; what two of them need first. All are waited for, also
# where one fails.
./debian.sh &
fetching=($!)
failed=0
if ./node.sh >/dev/null; then
  for each in kafka kinesis mysql postgresql debezium opensearch elasticmq artemis pulsar pubsub protobuf apicurio; do
    "./$each.sh" &
    fetching+=($!)
  done
else
  failed=1
fi
for each in "${fetching[@]}"; do wait "$each" || failed=1; done
exit $failed
