#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_mpi.sh MPIRUN TEST: the engine of processes on 1, 2, 3 and 5 of them, on 3 x 2 in a mesh, where one comes to
# another transfer or one of another size, where one fails, and where the host has initialized MPI for itself alone.
set -euo pipefail

for ranks in 1 2 3 5; do
    "$1" -n "$ranks" "$2"
done
"$1" -n 6 "$2" mesh
for how in late late-group other-size failed alone; do
    code=0
    "$1" -n 3 "$2" "$how" || code=$?
    [ "$code" -eq 3 ] || { echo "FAILED: $how gives $code" >&2; exit 1; }
done
