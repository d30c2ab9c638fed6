#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a stage of the tests and measurements on a GPU in less than eight minutes, and again what is left of it.
#   tools/gpu.sh pack [FOLDER]      what the GPU's machine needs of build/, with libraries, into FOLDER (build-carried)
#   tools/gpu.sh commit             what is built here
#   tools/gpu.sh STAGE [OPTION...]  first, conformance, kernels, steps, ranks, sanitizer, profile or bench (tests/gpu/stages.py --help)
#   tools/gpu.sh keep FOLDER        what came of the stage first, into schemas/devices, docs/tables and docs/benchmarks.md
set -euo pipefail
cd "$(dirname "$0")/.."

commit() { # of what is built here
    git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown
}

pack() { # the tools find libremat beside them; other libraries are those of the machine that built
    local to=$1 file library
    for file in tools/remat-{graph,compile,run,dump} runtime/exec/libremat.so.0 compiler/library/libremat-compiler.so.0 \
        tests/cuda/cuda_host tests/gpu/gpu_worker; do
        install -D "build/$file" "$to/$file"
        while read -r library; do
            install -D "$library" "$to/libraries/$(basename "$library")"
        done < <(ldd "build/$file" | grep -oE '/\S*/lib(jansson|xxhash|stdc\+\+|gcc_s)\.so\S*')
    done
    commit >"$to/commit"
    mkdir -p "$to/gpu" # what the stages find
    du -sh "$to"
}

[ "${1-}" != commit ] || { commit; exit; }
[ "${1-}" != pack ] || { pack "${2-build-carried}"; exit; }
exec python3 tests/gpu/stages.py "$@"
