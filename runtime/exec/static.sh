#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The static library exports what the shared one does: all objects become one, in which the hidden names are local.
#
#     static.sh OUTPUT OBJCOPY AR COMPILER... -- ARCHIVE...
set -eu
output=$1 objcopy=$2 ar=$3
shift 3
compiler=
while [ "$1" != -- ]; do
    compiler="$compiler $1"
    shift
done
shift
object=${output%.a}.o
# Groups are resolved here: the host's own C++ must not have parts of ours discarded.
$compiler -r -nostdlib -Wl,--force-group-allocation -Wl,--whole-archive "$@" -Wl,--no-whole-archive -o "$object"
"$objcopy" --localize-hidden "$object"
rm -f "$output"
"$ar" rcs "$output" "$object"
