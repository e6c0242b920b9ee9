#!/bin/sh
# The payload is the standard input; exit status 0 means that the job is done.
set -eu
mkdir -p results
words=$(wc -w)
# A job can run more than once: write a file of another name first, so that its result is whole or not there.
echo "$((words)) words" >"results/.$JOB_ID.$JOB_FENCE"
mv "results/.$JOB_ID.$JOB_FENCE" "results/$JOB_ID.txt"
