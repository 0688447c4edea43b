#!/bin/sh
# A todo is planned, and its reminder comes two seconds later; the server is killed in between.
#
#     sh run.sh [rust|typescript|python]
#
# Starts a service and a universe in a folder of its own, builds and uploads the program, and stops them again.
set -eu
language=${1:-rust}
here=$(cd "$(dirname "$0")" && pwd)
data=$(mktemp -d)
port=${SERVICE_PORT:-8099}
mundi program build --install "$here/$language" >&2

serve() {
    MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED='["127.0.0.1"]' mundi dev --data "$data" 2>>"$data/server.log" &
    server=$!
}
python3 "$here/service.py" "$port" >&2 &
service=$!
serve
trap 'kill $server $service; wait $server || true; rm -rf "$data"' EXIT

program=$(mundi program upload "$here/$language")
mundi world create boss --program "$program" >&2
mundi world create agent --program "$program" >&2
setup='{"service": "http://127.0.0.1:'$port'/minutes", "notify": "boss", "remind_ms": 2000}'
mundi world call agent setup "$setup" >&2
mundi world call agent add '{"id": "tea", "text": "make tea"}'

kill -9 "$server"
wait "$server" || true
serve
until mundi world query boss notices | grep reminded; do sleep 1; done
