#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without the folder tests, -Dtests=false configures, builds and installs the product and nothing else.
#   without_tests.sh C_COMPILER CXX_COMPILER VERSION
set -euo pipefail
cd "$(dirname "$0")/../.."
export CC=$1 CXX=$2
version=$3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/source"
cp -r meson.build meson_options.txt compiler runtime schemas tools "$scratch/source"
cd "$scratch"

meson setup build source -Dtests=false --buildtype=plain --prefix=/usr --libdir=lib >setup.log || { cat setup.log; exit 1; }
ninja -C build >build.log || { tail -30 build.log; exit 1; }
DESTDIR=$PWD/installed meson install -C build --no-rebuild --quiet
cat >expected <<FILES
bin/remat-compile
bin/remat-dump
bin/remat-graph
bin/remat-run
bin/remat-solve
include/remat/engine.h
include/remat/remat.h
include/remat/status.h
lib/libremat.a
lib/libremat.so
lib/libremat.so.0
lib/libremat.so.$version
lib/pkgconfig/remat.pc
FILES
(cd installed/usr && find . ! -type d -printf '%P\n') | LC_ALL=C sort >found
diff -u expected found
LD_LIBRARY_PATH=installed/usr/lib installed/usr/bin/remat-run --version
