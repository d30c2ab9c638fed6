#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains GPT-2 124M for two steps in a process whose address space is limited to the plan's budget,
# with hashes of all steps and the gradients of the last:
#   address_space.sh BUILD_DIRECTORY BUDGET_BYTES
set -euo pipefail
tools=$1/tools budget=$2
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tools/remat-graph" gpt2-124m --batch 2 --seq 512 -o "$work/model.fbs"
"$tools/remat-compile" "$work/model.fbs" --budget "$budget" -o "$work/model.plan"
"$tools/remat-dump" "$work/model.plan" --format json | grep -q '"recomputed": [1-9]'
(ulimit -v $((budget / 1024)) &&
    "$tools/remat-run" "$work/model.plan" --text "$source/../data/genesis_exodus.txt" --steps 2 \
        --hash --save-gradients "$work/gradients" --gradients-step 2)
test -s "$work/gradients"
# The limit bites: less than the arena is refused.
if (ulimit -v $((budget * 8 / 10 / 1024)) &&
    "$tools/remat-run" "$work/model.plan" --text "$source/../data/genesis_exodus.txt" --steps 1); then
    echo "FAILED: the run fits 80 % of its budget" >&2
    exit 1
fi
