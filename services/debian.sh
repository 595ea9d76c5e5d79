#!/usr/bin/env bash
# Installs the Debian packages of apt.txt that are missing, or older than there, as root; says so where it can't.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v apt-get >/dev/null; then
  echo "NOT INSTALLED (no apt-get here): the servers in services/apt.txt" >&2
  exit 0
fi
missing=()
while read -r name version; do
  found=$(dpkg-query -W -f '${Version}' "$name" 2>/dev/null || true)
  if [ -z "$found" ] || dpkg --compare-versions "${found#*:}" lt "$version"; then missing+=("$name"); fi
done < <(grep -v '^#' apt.txt)

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "NOT INSTALLED (needs root): apt-get install ${missing[*]}" >&2
    exit 0
  fi
  as_root=(sudo -n)
fi
echo "installing ${missing[*]}"
# No service is to be started: tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod +x "$policy"
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
