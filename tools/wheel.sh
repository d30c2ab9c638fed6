#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel of tools/python that needs neither this tree nor an installed remat: libremat-compiler is inside, with
# the libraries that not every system has.
#   [PYTHON=python3] tools/wheel.sh [build directory (default: build-wheel)]
# It lies in the build directory, remat-VERSION-py3-none-manylinux_GLIBC_ARCHITECTURE.whl, for systems with that glibc or
# a later one. PYTHON has pip and setuptools from 70.1; nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${1-build-wheel}
[ -f "$directory/build.ninja" ] || LDFLAGS='-Wl,-rpath,$ORIGIN' meson setup "$directory" -Dtests=false
meson compile -C "$directory" remat-compiler

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -RL tools/python/pyproject.toml LICENSE tools/python/remat "$work"
find "$work" -name __pycache__ -prune -exec rm -r {} +
library=$work/remat/libremat-compiler.so.0
strip -o "$library" "$(realpath "$directory/compiler/library/libremat-compiler.so.0")"

# What manylinux has of its own (PEP 600) is not copied; the rest is, with its license.
while read -r name _ path _; do
    [[ $name =~ ^lib(c|m|dl|pthread|gcc_s)\.so || $path != /* ]] && continue
    cp -L "$path" "$work/remat/$name"
    package=$(dpkg-query -S "$(realpath "$path")" | cut -d: -f1)
    cp "/usr/share/doc/$package/copyright" "$work/LICENSE.$name"
done < <(ldd "$library")

glibc=$(objdump -T "$work"/remat/lib*.so* | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
glibc=${glibc#GLIBC_}
"${PYTHON-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$directory" \
    --config-settings="--build-option=--plat-name=manylinux_${glibc//./_}_$(uname -m)" "$work"
ls "$directory"/remat-*.whl
