#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Line coverage of the verifier, the simulator and the readers of untrusted files, with gcovr (from PyPI).
set -euo pipefail
cd "$(dirname "$0")/../.."
directory=build-coverage
[ -f "$directory/build.ninja" ] || meson setup "$directory" --buildtype=debug -Db_coverage=true
ninja -C "$directory"
meson test -C "$directory" unit_program unit_program_builtin unit_program_alias unit_ingest ir_graph ir_text models \
    ops_verify config device_description profile weights fuzz_files fuzz_weights runtime_gemm_table solve_cli
meson test -C "$directory" --suite golden
gcovr -r . --object-directory "$directory" \
    -f 'runtime/program/(program_read|program_verify|program_simulate|verify_.*|cuda_read|reader|file_kind)[.]c' \
    -f 'compiler/(ingest/graph_read|ops/verify|ir/text/graph_(lex|parse).*)[.]c' \
    -f 'compiler/kernels/(device_description|profile)[.]c' \
    -f 'tools/(run/safetensors_reader|graph/config)[.]c' \
    -f 'runtime/device/cuda/gemm_table[.]c' -f 'tools/solve/problem_json[.]c'
