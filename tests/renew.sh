#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After a change of what the tools print: writes golden files, the output and figures that documents show and their pictures anew,
# and raises the figures of thresholds.txt.
# Read the diff before committing it.
#   tests/renew.sh [build directory (default: build)]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1-build}

tools/build.sh "$build"
REMAT_UPDATE_GOLDEN=1 meson test -C "$build" --suite golden --quiet
for document in README.md docs/*.md docs/questions/*.md; do
    python3 tests/docs/commands.py "$build" "$document" --update | grep -A 1 'to renew by hand' || true
done
tests/docs/curve.sh "$build" --update
python3 tests/docs/report_picture.py "$build" --update
python3 tests/docs/figures.py "$build" --update
python3 tests/thresholds.py "$build"
git diff --stat
