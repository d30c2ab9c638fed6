#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs remat-dump on files of a tiny GPT-2, in a directory of their own so that messages name no
# other path: dump.sh REMAT_GRAPH REMAT_COMPILE REMAT_DUMP "COMPILE OPTIONS" DUMP ARGUMENTS...
# The files are tiny.fbs and tiny.plan, full.plan, where all layers are checkpointed, tiny.pickle, a snapshot, step.json, a trace,
# and run.jsonl, a log. LAYERS: of the GPT-2, 3 without it.
set -euo pipefail
graph=$(realpath "$1") compile=$(realpath "$2") dump=$(realpath "$3")
read -ra options <<<"$4"
shift 4

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
"$graph" gpt2-tiny --layers "${LAYERS:-3}" --seq 64 --batch 2 -o tiny.fbs
"$compile" tiny.fbs "${options[@]}" -o tiny.plan >compile.log
[[ " $* " != *" full.plan "* ]] || "$compile" tiny.fbs --ac-mode full -o full.plan >compile.log
[[ " $* " != *" step.json "* ]] || "$dump" tiny.plan --format trace -o step.json
[[ " $* " != *" tiny.pickle "* ]] || "$dump" tiny.plan --format snapshot -o tiny.pickle
printf '{"step":1,"loss":5.5}\n{"step":2,"loss":5,"lr":-1}\n' >run.jsonl
"$dump" "$@"
