#!/bin/sh
# Pretends to draw a map tile, and notes that it is done. It may be called again for a job whose worker has died.
set -eu
tile=$(cat)
sleep 0.1
echo "$JOB_ID tile $tile" >>"$EFFECTS"
