#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/curve.svg is what the README's commands write: curve.sh BUILD_DIRECTORY [--update]
set -euo pipefail
PATH=$(realpath "$1")/tools:$PATH
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
sed -nE 's/^\$ (remat-graph llama3.2-1b .*|remat-compile llama.fbs .*--curve .*)$/\1/p' "$root/README.md" >commands
[ "$(wc -l <commands)" = 2 ]
bash -eu commands >/dev/null
if [ "${2:-}" = --update ]; then
    cp curve.svg "$root/docs/curve.svg"
fi
cmp curve.svg "$root/docs/curve.svg"
