#!/bin/sh
# run.sh PROGRAM SEED-PREFIX RUNS: a short, repeatable run over the seeds whose names begin so.
# The seeds are given one by one, because libFuzzer writes what it finds into a folder of seeds;
# inputs grow up to the longest of them.
set -eu
seeds=$(ls "$2"-* | paste -sd, -)
exec "$1" -runs="$3" -seed=20260131 -timeout=30 -rss_limit_mb=2048 -print_final_stats=0 \
    -verbosity=0 -seed_inputs="$seeds"
