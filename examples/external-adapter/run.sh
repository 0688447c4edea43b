#!/bin/sh
# A world asks for an effect, and a worker in Python carries it out.
#
# Starts a universe in a folder of its own and the worker, and stops them again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=$(mktemp -d)

mundi dev --data "$data" 2>"$data/server.log" &
server=$!
python3 "$here/worker.py" >&2 &
worker=$!
trap 'kill $server $worker; wait $server || true; rm -rf "$data"' EXIT

mundi world create k --program kv >&2
mundi world call k ask '{"key": "answer", "kind": "external.task", "params": {"n": 21}}' >&2
until mundi world query k get '"answer"' | grep doubled; do sleep 1; done
