#!/usr/bin/env bash
# Fetches jars from Maven's registry, with all that they need at compile time and their own, by the resolver
# that PySpark brings.
#   services/jars.sh HOME VERSION GROUP:ARTIFACT:VERSION...
#   services/jars.sh HOME VERSION LIST
# LIST is a file of coordinates that were resolved before: they alone are fetched, several at once, which
# is far quicker where there are hundreds. Into HOME/libs, with VERSION in HOME/fetched; does nothing when
# that is there.
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

# fetch WORK TRANSITIVE COORDINATE...: by a resolver whose files are in a folder.
fetch() {
  mkdir -p "$1"
  {
    echo '<ivy-module version="2.0"><info organisation="mainstem" module="fetched"/>'
    echo '<configurations><conf name="default"/></configurations>'
    echo '<dependencies defaultconf="default->default(compile),master(default),runtime()">'
    for coordinate in "${@:3}"; do
      IFS=: read -r group artifact version <<<"$coordinate"
      echo "<dependency org=\"$group\" name=\"$artifact\" rev=\"$version\" transitive=\"$2\">"
      # Said, for the artifacts of some have types that the resolver does not know as jars.
      echo "<artifact name=\"$artifact\" type=\"jar\" ext=\"jar\"/></dependency>"
    done
    echo '</dependencies></ivy-module>'
  } >"$1/ivy.xml"
  "$java" -XX:TieredStopAtLevel=1 -jar "$ivy" -cache "$1/cache" -ivy "$1/ivy.xml" -confs default -warn \
    -types jar bundle -retrieve "$home/libs/[artifact]-[revision].[ext]" >"$1/log" 2>&1 ||
    { cat "$1/log" >&2; return 1; }
}

mkdir "$home/work"
if [ -f "$1" ]; then
  mapfile -t listed <"$1"
  # Every eighth to one, for those of a kind are of a size.
  fetching=()
  for turn in {0..7}; do
    share=()
    for ((at = turn; at < ${#listed[@]}; at += 8)); do share+=("${listed[at]}"); done
    fetch "$home/work/$turn" false "${share[@]}" &
    fetching+=($!)
  done
  for each in "${fetching[@]}"; do wait "$each"; done
else
  fetch "$home/work" true "$@"
fi
rm -rf "$home/work"
echo "$wanted" >"$home/fetched"
