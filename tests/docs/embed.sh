#!/usr/bin/env bash
# Installs libremat into a scratch directory, compiles docs/examples/embed.c against it with
# pkg-config, as C and as C++, and trains a tiny plan with both: embed.sh BUILD_DIRECTORY
set -euo pipefail
build=$(realpath "$1")
example=$(cd "$(dirname "$0")/../../docs/examples" && pwd)/embed.c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

meson install -C "$build" --no-rebuild --quiet --destdir "$work/installed" >/dev/null
pc=$(find installed -name remat.pc)
export PKG_CONFIG_PATH=$work/$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$work/installed
export LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
read -ra flags < <(pkg-config --cflags --libs remat)

"${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror "$example" "${flags[@]}" -o embed-c
"${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror -x c++ "$example" -x none "${flags[@]}" -o embed-cpp

"$build/tools/remat-graph" gpt2-tiny -o tiny.fbs
"$build/tools/remat-compile" tiny.fbs -o tiny.plan >/dev/null
./embed-c tiny.plan 3 | tee c.txt
./embed-cpp tiny.plan 3 >cpp.txt
cmp c.txt cpp.txt
[ "$(grep -cE '^step [123] loss [0-9]+\.[0-9]{6}$' c.txt)" = 3 ]
# An error of the library is the program's.
if ./embed-c tiny.fbs 1 2>error.txt || [ $? -ne 4 ]; then
    echo "FAILED: a graph was taken for a plan, or refused with another exit code" >&2
    exit 1
fi
grep -q '^embed: tiny.fbs: ' error.txt
