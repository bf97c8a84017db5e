#!/bin/sh
# Makes the environment of the examples (.venv) and their generated code, and puts programs that start them into a folder of
# plugin.path: ./install.sh DIR
set -eu
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
proto=${CAUCE_PROTO:-$here/../../../libs/plugin/pluginpb}
[ -x "$here/.venv/bin/python" ] || python3 -m venv "$here/.venv"
"$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
mkdir -p "$here/generated" "$1"
"$here/.venv/bin/python" -m grpc_tools.protoc -I "$proto" --python_out="$here/generated" --grpc_python_out="$here/generated" \
  "$proto/catalog.proto" "$proto/assignor.proto" "$proto/connector.proto" "$proto/data.proto"
install() {
  # exec: Cauce watches, and ends, the process that it has started.
  printf '#!/bin/sh\nexec "%s/.venv/bin/python" "%s/%s"\n' "$here" "$here" "$2" > "$1/.$3"
  chmod 755 "$1/.$3"
  mv "$1/.$3" "$1/$3"
  echo "installed $1/$3"
}
install "$1" assignor.py python-turns
install "$1" connector.py python-connectors
