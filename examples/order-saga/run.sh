#!/bin/sh
# Three orders: one goes through, one is refunded because there is no stock, one is given up after three refused payments.
#
#     sh run.sh [rust|typescript|python]
#
# Starts a universe in a folder of its own and the worker, builds and uploads the program, and stops them again.
set -eu
language=${1:-rust}
here=$(cd "$(dirname "$0")" && pwd)
data=$(mktemp -d)
mundi program build --install "$here/$language" >&2

mundi dev --data "$data" 2>"$data/server.log" &
server=$!
python3 "$here/worker.py" >&2 &
worker=$!
trap 'kill $server $worker; wait $server || true; rm -rf "$data"' EXIT

program=$(mundi program upload "$here/$language")
mundi world create shop --manifest "$program" >&2
place() { mundi world call shop place "$1"; }
place '{"order": "good", "sku": "tea", "quantity": 2, "cents": 800}'
place '{"order": "refunded", "sku": "unicorn", "quantity": 1, "cents": 900}'
place '{"order": "refused", "sku": "yacht", "quantity": 1, "cents": 9000000}' # tried again after 2 s, and after 4 s
mundi world query shop totals
