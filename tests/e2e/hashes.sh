#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The user's way to check the promise: remat-run --hash prints the same hashes under different plans,
# threads and budgets, and others for another seed. hashes.sh BUILD_DIRECTORY
set -euo pipefail
tools=$1/tools
text=$(cd "$(dirname "$0")" && pwd)/../data/genesis_exodus.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$tools/remat-graph" gpt2-tiny --batch 3 --seq 50 -o model.fbs

hashes() { # name, remat-run options, then -- and remat-compile options
    local name=$1 run=()
    shift
    while [ "$1" != -- ]; do run+=("$1") && shift; done
    shift
    "$tools/remat-compile" model.fbs -o model.plan "$@" >/dev/null
    "$tools/remat-run" model.plan --text "$text" --steps 3 --hash --json "${run[@]}" 2>/dev/null |
        python3 -c '
import json, re, sys
for line in sys.stdin:
    record = json.loads(line)
    assert set(record) >= {"step", "loss", "tokens_per_s", "step_ns", "loss_hash", "grad_hash"}, record
    assert all(re.fullmatch("[0-9a-f]{16}", record[key]) for key in ("loss_hash", "grad_hash")), record
    print(record["step"], record["loss_hash"], record["grad_hash"])' >"$name"
    [ "$(wc -l <"$name")" = 3 ]
}

hashes none --threads 1 --
hashes full --threads 2 -- --recompute-granularity full --recompute-method uniform
hashes every2 --threads 2 -- --ac-mode selective --ac-option 2
hashes every_n_layers --threads 1 -- --gradient-checkpointing-kwargs every_n_layers=2
hashes attention --threads 2 -- --ac-mode selective --ac-option attention
hashes budget --threads 1 -- --budget 139500000
hashes seed --threads 1 --seed 1 --
for name in full every2 every_n_layers attention budget; do
    cmp none "$name"
done
if cmp -s none seed; then
    echo "FAILED: another seed has the same hashes" >&2
    exit 1
fi
