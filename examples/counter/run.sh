#!/bin/sh
# The counter that is built into `mundi`: counts to three, is killed, and goes on to six.
#
# Starts a universe in a folder of its own, and stops it again.
set -eu
data=$(mktemp -d)

serve() {
    mundi dev --data "$data" 2>>"$data/server.log" &
    server=$!
}
serve
trap 'kill $server; wait $server || true; rm -rf "$data"' EXIT

mundi world create counter --program counter >&2
for n in 1 2 3; do mundi world call counter add 1; done
kill -9 "$server"
wait "$server" || true
serve
for n in 4 5 6; do mundi world call counter add 1; done
