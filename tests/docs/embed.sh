#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs libremat into a scratch directory, compiles docs/examples/embed.c against it with
# pkg-config, as C and as C++, shared and static, and trains a tiny plan with each: embed.sh BUILD_DIRECTORY
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
read -ra static_flags < <(pkg-config --static --cflags --libs remat | sed 's/-lremat/-l:libremat.a/')

"${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror "$example" "${flags[@]}" -o embed-c
"${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror -x c++ "$example" -x none "${flags[@]}" -o embed-cpp

"${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror "$example" "${static_flags[@]}" -o embed-static
"${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror -x c++ "$example" -x none "${static_flags[@]}" -o embed-static-cpp

"$build/tools/remat-graph" gpt2-tiny -o tiny.fbs
"$build/tools/remat-compile" tiny.fbs -o tiny.plan >/dev/null
./embed-c tiny.plan 3 | tee c.txt
./embed-cpp tiny.plan 3 >cpp.txt
cmp c.txt cpp.txt
./embed-static tiny.plan 3 | cmp - c.txt
./embed-static-cpp tiny.plan 3 | cmp - c.txt
[ "$(grep -cE '^step [123] loss [0-9]+\.[0-9]{6}$' c.txt)" = 3 ]
# A model of one's own, planned by the program is planned as remat-compile does it, and runs.
read -ra compiler_flags < <(pkg-config --cflags --libs remat-compiler)
"${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror "${example%embed.c}plan.c" "${compiler_flags[@]}" -o plan-c
"${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror -x c++ "${example%embed.c}plan.c" -x none "${compiler_flags[@]}" -o plan-cpp
./plan-c 150MB own.fbs own.plan >own.txt
./plan-cpp 150MB cpp.fbs cpp.plan >/dev/null
cmp own.fbs cpp.fbs
cmp own.plan cpp.plan
"$build/tools/remat-compile" own.fbs --budget 150MB -o own.plan >compiled.txt
cmp own.plan cpp.plan
diff <(grep -v '^advice' compiled.txt) own.txt
./embed-c own.plan 3 >trained.txt
[ "$(grep -cE '^step [123] loss [0-9]+\.[0-9]{6}$' trained.txt)" = 3 ]
if ./plan-c 1MB own.fbs none.plan 2>error.txt || [ $? -ne 3 ] || [ -e none.plan ]; then
    echo "FAILED: a plan within a budget that nothing fits" >&2
    exit 1
fi
grep -q '^plan: budget 1000000 B is too small' error.txt

# An error of the library is the program's.
if ./embed-c tiny.fbs 1 2>error.txt || [ $? -ne 4 ]; then
    echo "FAILED: a graph was taken for a plan, or refused with another exit code" >&2
    exit 1
fi
grep -q '^embed: tiny.fbs: ' error.txt

# Both libraries have the same names, all of them of the headers.
nm -D --defined-only "$LD_LIBRARY_PATH/libremat.so" | awk '{print $3}' | sort >shared-names.txt
nm -g --defined-only "$LD_LIBRARY_PATH/libremat.a" | awk 'NF == 3 {print $3}' | sort >static-names.txt
diff shared-names.txt static-names.txt
headers=(installed/usr/local/include/remat/{remat,engine,status}.h)
if [ "$(grep -c . shared-names.txt)" != "$(cat "${headers[@]}" | grep -c '^REMAT_API ')" ]; then
    echo "FAILED: the libraries export other names than ${headers[*]} declare" >&2
    exit 1
fi

# A host may have names of its own that are the library's inside.
find "$build/runtime" "$build/schemas" -name '*.a' ! -name libremat.a -exec nm -g --defined-only {} + |
    awk 'NF == 3 && $3 ~ /^[a-z][a-z0-9_]*$/ {print $3}' | sort -u | comm -23 - shared-names.txt >inside.txt
[ "$(grep -c . inside.txt)" -gt 200 ]
sed 's/.*/int &(void); int &(void) { __builtin_trap(); }/' inside.txt >names.c
"${CC:-cc}" -std=c11 -w "$example" names.c "${flags[@]}" -o host-shared
"${CC:-cc}" -std=c11 -w "$example" names.c "${static_flags[@]}" -o host-static
if ldd host-static | grep libremat; then
    echo "FAILED: it is linked to the shared library" >&2
    exit 1
fi
./host-shared tiny.plan 3 | cmp - c.txt
LD_LIBRARY_PATH= ./host-static tiny.plan 3 | cmp - c.txt
