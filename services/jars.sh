#!/usr/bin/env bash
# Fetches jars from Maven's registry, with all that they need at compile time and their own, by the resolver
# that PySpark brings.
#   services/jars.sh HOME VERSION GROUP:ARTIFACT:VERSION...
# Into HOME/libs, with VERSION in HOME/fetched; does nothing when that is there.
set -euo pipefail
cd "$(dirname "$0")/.."

home=$1 wanted=$2
shift 2
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
ivy=$(.venv/bin/python -c 'import pyspark, pathlib; print(next(pathlib.Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")))')
rm -rf "$home"
mkdir -p "$home"
echo "fetching $(basename "$home") $wanted"
{
  echo '<ivy-module version="2.0"><info organisation="mainstem" module="fetched"/>'
  echo '<configurations><conf name="default"/></configurations>'
  echo '<dependencies defaultconf="default->default(compile),master(default),runtime()">'
  for coordinate in "$@"; do
    IFS=: read -r group artifact version <<<"$coordinate"
    echo "<dependency org=\"$group\" name=\"$artifact\" rev=\"$version\"/>"
  done
  echo '</dependencies></ivy-module>'
} >"$home/ivy.xml"
"$java" -jar "$ivy" -cache "$home/cache" -ivy "$home/ivy.xml" -confs default -warn -types jar bundle \
  -retrieve "$home/libs/[artifact]-[revision].[ext]" >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
rm -rf "$home/cache" "$home/ivy.xml" "$home/log"
echo "$wanted" >"$home/fetched"
