#!/bin/sh
# The tests of the object store against Garage, a real durable S3 server. Builds it the first time: about 16 CPU-minutes.
set -eu
tool="${XDG_CACHE_HOME:-$HOME/.cache}/mundi/garage"
[ -x "$tool/bin/garage" ] || cargo install --locked --root "$tool" garage
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cat > "$folder/garage.toml" <<END
metadata_dir = "$folder/meta"
data_dir = "$folder/data"
db_engine = "sqlite"
replication_factor = 1
rpc_bind_addr = "127.0.0.1:3911"
rpc_public_addr = "127.0.0.1:3911"
rpc_secret = "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"
[s3_api]
api_bind_addr = "127.0.0.1:3910"
s3_region = "garage"
END
garage() { "$tool/bin/garage" -c "$folder/garage.toml" "$@"; }
garage server > "$folder/log" 2>&1 &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    node=$(garage node id -q 2> /dev/null || true)
    [ -n "$node" ] && garage status > /dev/null 2>&1 && break
    sleep 0.5
done
garage layout assign -z here -c 10G "${node%%@*}" > /dev/null
garage layout apply --version 1 > /dev/null
garage bucket create mundi > /dev/null
garage key create tests > "$folder/key"
garage bucket allow --read --write --owner mundi --key tests > /dev/null
AWS_ACCESS_KEY_ID=$(sed -n 's/^Key ID: *//p' "$folder/key")
AWS_SECRET_ACCESS_KEY=$(sed -n 's/^Secret key: *//p' "$folder/key")
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
AWS_ENDPOINT=http://127.0.0.1:3910 AWS_ALLOW_HTTP=true AWS_REGION=garage MUNDI_TEST_S3_URL=s3://mundi/tests \
    cargo test --package mundi-store --test all s3::
