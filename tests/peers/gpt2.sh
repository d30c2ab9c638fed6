#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a preset with our tools and with PyTorch from the same weights and text, and compares:
#   gpt2.sh BUILD_DIRECTORY PYTHON PRESET HEADS BATCH SEQ STEPS [FAMILY [SEED [MICROBATCHES [CLIP_NORM [OPTION...]]]]]
# CLIP_NORM 0: none; OPTION: of remat-graph.
set -euo pipefail
tools=$1/tools python=$2 preset=$3 heads=$4 batch=$5 seq=$6 steps=$7
source=$(cd "$(dirname "$0")" && pwd)
text=$source/../data/genesis_exodus.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Without PyTorch this skips, or fails in CI, before anything is trained. Importing it takes seconds.
"$python" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))' ||
    exec "$python" "$source/compare_gradients.py"

clip_norm=${11:-0} clip=()
[ "$clip_norm" = 0 ] || clip=(--clip-norm "$clip_norm")
"$tools/remat-graph" "$preset" "${clip[@]}" "${@:12}" --batch "$batch" --seq "$seq" -o "$work/model.fbs"
"$tools/remat-compile" "$work/model.fbs" --recompute-granularity full --recompute-method uniform \
    --microbatches "${10:-1}" -o "$work/model.plan" >/dev/null
"$tools/remat-run" "$work/model.plan" --text "$text" --steps "$steps" --lr 3e-4 --seed "${9:-0}" --json \
    --save-initial-weights "$work/initial.safetensors" --save-gradients "$work/gradients.safetensors" \
    --save-weights "$work/after.safetensors" >"$work/losses.jsonl"
exec "$python" "$source/compare_gradients.py" --weights "$work/initial.safetensors" \
    --gradients "$work/gradients.safetensors" --losses "$work/losses.jsonl" \
    --weights-after "$work/after.safetensors" --text "$text" --heads "$heads" --batch "$batch" \
    --seq "$seq" --steps "$steps" --lr 3e-4 --family "${8:-gpt2}" \
    --microbatches "${10:-1}" "${clip[@]}"
