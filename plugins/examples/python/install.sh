#!/bin/sh
# Makes the environment of the example (.venv) and its generated code, and puts a program that starts it into a folder of
# plugin.path: ./install.sh DIR
set -eu
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
proto=${CAUCE_PROTO:-$here/../../../libs/plugin/pluginpb}
[ -x "$here/.venv/bin/python" ] || python3 -m venv "$here/.venv"
"$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
mkdir -p "$here/generated" "$1"
"$here/.venv/bin/python" -m grpc_tools.protoc -I "$proto" --python_out="$here/generated" --grpc_python_out="$here/generated" \
  "$proto/catalog.proto" "$proto/assignor.proto"
# exec: Cauce watches, and ends, the process that it has started.
printf '#!/bin/sh\nexec "%s/.venv/bin/python" "%s/assignor.py"\n' "$here" "$here" > "$1/.python-turns"
chmod 755 "$1/.python-turns"
mv "$1/.python-turns" "$1/python-turns"
echo "installed $1/python-turns"
