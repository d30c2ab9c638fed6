#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 to a trained model: installs, builds the tools, plans Llama 3.2 1B for an H100, then makes
# GPT-2 124M's training graph, measures this machine, compiles the graph for it under a budget that forces
# recomputation, and trains it on tests/data.
#   tools/demo.sh [steps (default: 10)] [build directory (default: build)]
# Everything it writes lies in the build directory, in demo/.
set -euo pipefail
cd "$(dirname "$0")/.."

steps=${1-10}
build=${2-build}

tools/setup.sh
options=()
[ -f "$build/build.ninja" ] || options=(-Dtests=false)
tools/build.sh "$build" "${options[@]}"

mkdir -p "$build/demo"
text=$(realpath --relative-to "$build/demo" tests/data/genesis_exodus.txt)
cd "$build/demo"
export PATH=$PWD/../tools:$PATH

show() { # the command as a user would type it, then its output
    printf '\n$ %s\n' "$*"
    "$@"
}
show_head() { # the same, but only the first lines of what it prints
    printf '\n$ %s | head -n %d\n' "${*:2}" "$1"
    "${@:2}" | sed -n "1,$1p"
}

show remat-graph llama3.2-1b --batch 32 --seq 2048 --dtype bf16 -o llama.fbs
show remat-compile llama.fbs --budget 80GB --target h100-sxm -o llama.plan
show remat-graph gpt2-124m --batch 2 --seq 512 -o model.fbs
show remat-run --measure-device this.json
show remat-compile model.fbs --budget 2.2GB --target this.json -o model.plan
show remat-run model.plan --text $text --steps "$steps" --lr 3e-4
show remat-dump model.plan --memory
show_head 20 remat-dump model.plan --decisions
