#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures where needed, then compiles: tools/build.sh [directory (default: build)] [meson options]
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${1-build}
[ $# -eq 0 ] || shift
if ! [ -f "$directory/build.ninja" ]; then
    meson setup "$directory" "$@"
elif [ $# -gt 0 ]; then
    meson configure "$directory" "$@"
fi
meson compile -C "$directory"
