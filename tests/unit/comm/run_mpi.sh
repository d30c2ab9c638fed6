#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_mpi.sh MPIRUN TEST: the engine of processes on 1, 2, 3 and 5 of them, and where one comes to another transfer.
set -euo pipefail
# Open MPI keeps memory of its own.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

for ranks in 1 2 3 5; do
    "$1" -n "$ranks" "$2"
done
code=0
"$1" -n 3 "$2" late || code=$?
[ "$code" -eq 3 ] || { echo "FAILED: late gives $code" >&2; exit 1; }
