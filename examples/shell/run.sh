#!/bin/sh
# Enqueues some jobs, works until all are done or dead, and shows what has become of them.
# Needs the command worker: go install ./cmd/worker
set -eu
cd "$(dirname "$0")"
command -v worker >/dev/null || {
	echo "worker is not on the PATH: go install ./cmd/worker, and add $(go env GOPATH)/bin to PATH" >&2
	exit 1
}
export WORKER_DB=jobs.db

echo "the quick brown fox" | worker enqueue count -
printf 'one\ntwo\n' | worker enqueue deliver --lines -
worker enqueue import 'name;age'
worker enqueue import '{"name":"Ada"}'

worker run --config worker.toml --until-idle --log-level error

echo "results:"
for file in results/*.txt; do
	printf '%s: %s\n' "$file" "$(cat "$file")"
done
echo "dead letters:"
worker list --state dead --json
