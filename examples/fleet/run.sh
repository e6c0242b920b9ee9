#!/bin/sh
# A fleet on one machine: one PostgreSQL database and three worker processes, one of which is killed while it works. All
# jobs are done all the same.
#
# Needs the command worker: go install ./cmd/worker
# Uses the database that WORKER_DB names. Without one, a server is started for the occasion from the installed programs.
set -eu
cd "$(dirname "$0")"
command -v worker >/dev/null || {
	echo "worker is not on the PATH: go install ./cmd/worker, and add $(go env GOPATH)/bin to PATH" >&2
	exit 1
}
work=$(mktemp -d)
as=
bin=
pids=
cleanup() {
	# shellcheck disable=SC2086 # several words
	[ -z "$pids" ] || kill $pids 2>/dev/null || true
	[ -z "$bin" ] || $as "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

if [ -z "${WORKER_DB:-}" ]; then
	for initdb in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb "$(command -v initdb || true)"; do
		[ ! -x "$initdb" ] || bin=$(dirname "$initdb")
	done
	[ -n "$bin" ] || { echo "no PostgreSQL server is installed: name one in WORKER_DB, or use compose.yaml" >&2; exit 1; }
	if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
		as="runuser -u postgres --"
		chown postgres "$work"
	fi
	( # where the user postgres may be
		cd "$work"
		$as "$bin/initdb" -D data --auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync >/dev/null
		$as "$bin/pg_ctl" -D data -l "$work/log" -w -o "-k $work -c listen_addresses=''" start >/dev/null
	)
	export WORKER_DB="postgres:///postgres?host=$work&user=postgres"
fi

export EFFECTS="$work/effects" # where jobs are seen to be done, outside of the database
: >"$EFFECTS"
seq 1 60 | worker enqueue tiles --lines - --visibility-timeout 2s >"$work/ids"
echo "enqueued: $(sort -u "$work/ids" | wc -l | tr -d ' ')"

for name in one two three; do
	worker run --name "$name" --exec tiles=./tile.sh --concurrency 4 --until-idle --log-level error &
	pids="$pids $!"
done
victim=${pids##* }
while [ "$(wc -l <"$EFFECTS")" -lt 5 ]; do sleep 0.05; done
kill -KILL "$victim"
echo "killed: one of three workers"
for pid in $pids; do
	wait "$pid" || [ "$pid" = "$victim" ]
done
pids=

echo "done: $(sort -u "$EFFECTS" | wc -l | tr -d ' ')"
echo "left over: $(worker list --queue tiles --json | wc -l | tr -d ' ')"
