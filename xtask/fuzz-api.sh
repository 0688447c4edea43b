#!/bin/sh
# Every operation of the served OpenAPI document, with generated data: no server error, no undocumented answer.
set -eu
tool="${XDG_CACHE_HOME:-$HOME/.cache}/mundi/schemathesis"
[ -x "$tool/bin/schemathesis" ] || { python3 -m venv "$tool" && "$tool/bin/pip" install --quiet 'schemathesis==4.32.5'; }
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill -9 "$server"; rm -rf "$folder"' EXIT
MUNDI_API__WAIT_MS_MAX=5000 "${CARGO_TARGET_DIR:-target}/debug/mundi" dev --bind 127.0.0.1:0 --data "$folder/data" 2> "$folder/log" &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    grep -q 'API at' "$folder/log" && break
    sleep 0.5
done
url=$(sed -n 's/.*API at \(http:[^ ]*\).*/\1/p' "$folder/log")
for world in alice paused archived deleted; do
    curl --fail --silent --output /dev/null "$url/v1/u/default/worlds" --data "{\"world\": \"$world\", \"program\": \"counter\"}"
done
cat > "$folder/schemathesis.toml" <<END
[parameters]
"path.universe" = "default"
"path.world" = "alice"
"path.event" = "add"
"path.query" = "count"
"query.timeout" = "5s"
END
# What ends a world has one of its own.
for pair in 'POST:/pause:paused' 'POST:/archive:archived' 'POST:/upgrade:paused' 'DELETE::deleted'; do
    method=${pair%%:*}; rest=${pair#*:}
    cat >> "$folder/schemathesis.toml" <<END

[[operations]]
include-name = "$method /v1/u/{universe}/worlds/{world}${rest%%:*}"
[operations.parameters]
"path.universe" = "default"
"path.world" = "${rest##*:}"
END
done
"$tool/bin/schemathesis" --config-file "$folder/schemathesis.toml" run "$url/openapi.json" \
    --max-examples "${MUNDI_FUZZ_EXAMPLES:-25}" --request-timeout 10 --phases examples,coverage,fuzzing --no-color \
    --exclude-path-regex 'workers/drain' `# it would end the only worker` \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
curl --fail --silent "$url/readyz"
