#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plans of every family run by several threads and sessions at once. threads.sh BUILD_DIRECTORY E2E_THREADS
set -euo pipefail
tools=$1/tools
threads=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

plan() { # name, remat-graph options, then -- and remat-compile options
    local name=$1 graph=()
    shift
    while [ "$1" != -- ]; do graph+=("$1") && shift; done
    shift
    "$tools/remat-graph" "${graph[@]}" -o model.fbs
    "$tools/remat-compile" model.fbs -o "$name.plan" "$@" >/dev/null
    "$threads" "$name.plan"
}
# ThreadSanitizer remembers a thread's last 300,000 accesses: of a small model, a whole step.
small=(--layers 1 --width 32 --heads 2 --vocab 64 --batch 2 --seq 6)
plan small_gpt2 gpt2-tiny "${small[@]}" --dropout 0.1 -- --ac-mode full
plan small_llama llama-tiny "${small[@]}" --kv-heads 1 --dtype bf16 -- --microbatches 2 --ac-mode full
plan small_bert bert-tiny "${small[@]}" --clip-norm 1 --attention written-out --
plan small_encdec encdec-tiny "${small[@]}" -- --loss-chunk 8
plan gpt2 gpt2-tiny --batch 3 --seq 50 --dropout 0.1 -- --ac-mode full
plan llama llama-tiny --batch 2 --seq 40 --dtype bf16 --
