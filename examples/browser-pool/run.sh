#!/bin/sh
# Ten fake browsers for thirty agents, of which one hangs and one lies.
#
# Starts a universe in a folder of its own, and stops it again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=$(mktemp -d)

mundi dev --data "$data" 2>"$data/server.log" &
server=$!
trap 'kill $server; wait $server || true; rm -rf "$data"' EXIT

mundi pool create browsers >&2
mundi resource create browsers browser-0 browser-1 browser-2 browser-3 browser-4 browser-5 browser-6 browser-7 browser-8 browser-9 --label browser >&2
python3 "$here/run.py"
