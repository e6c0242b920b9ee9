#!/bin/sh
# Exit status 100 means: this can never work.
set -eu
payload=$(cat)
case $payload in
'{'*'}') ;;
*)
	echo "not a JSON object: $payload" >&2
	exit 100
	;;
esac
mkdir -p results
printf '%s\n' "$payload" >"results/$JOB_ID.txt"
