#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without the folder tests, tools/deb.sh builds the product and nothing else. The package installs in a root that has
# only what it depends on, and works there; its man pages have every option.
#   package.sh C_COMPILER CXX_COMPILER
set -euo pipefail
cd "$(dirname "$0")/../.."
export CC=$1 CXX=$2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/source"
cp -r meson.build meson_options.txt CHANGELOG.md LICENSE compiler docs runtime schemas tools "$scratch/source"
cd "$scratch"
library=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)

meson setup build source -Dtests=false --buildtype=plain --prefix=/usr --libdir="${library#usr/}" >setup.log ||
    { cat setup.log; exit 1; }
source/tools/deb.sh "$PWD/build" >build.log || { tail -30 build.log; exit 1; }
package=$(ls build/remat_*.deb)
version=$(dpkg-deb -f "$package" Version)

cat >expected <<FILES
$library/libremat-compiler.so
$library/libremat-compiler.so.0
$library/libremat-compiler.so.$version
$library/libremat.a
$library/libremat.so
$library/libremat.so.0
$library/libremat.so.$version
$library/pkgconfig/remat-compiler.pc
$library/pkgconfig/remat.pc
usr/bin/remat-compile
usr/bin/remat-dump
usr/bin/remat-graph
usr/bin/remat-run
usr/bin/remat-solve
usr/include/remat/compile.h
usr/include/remat/engine.h
usr/include/remat/remat.h
usr/include/remat/solve.h
usr/include/remat/status.h
usr/share/bash-completion/completions/remat-compile
usr/share/bash-completion/completions/remat-dump
usr/share/bash-completion/completions/remat-graph
usr/share/bash-completion/completions/remat-run
usr/share/bash-completion/completions/remat-solve
usr/share/doc/remat/changelog.gz
usr/share/doc/remat/copyright
$(cd source && find docs -type f -printf 'usr/share/doc/remat/%P\n')
usr/share/man/man1/remat-compile.1.gz
usr/share/man/man1/remat-dump.1.gz
usr/share/man/man1/remat-graph.1.gz
usr/share/man/man1/remat-run.1.gz
usr/share/man/man1/remat-solve.1.gz
$(cd source && find schemas -name '*.json' -printf 'usr/share/remat/%P\n')
usr/share/remat/graph.fbs
usr/share/remat/ops.def
usr/share/remat/program.fbs
usr/share/zsh/vendor-completions/_remat
FILES
dpkg-deb -x "$package" unpacked
(cd unpacked && find . ! -type d -printf '%P\n') | LC_ALL=C sort >found
LC_ALL=C sort expected | diff -u - found
[ -f unpacked/usr/share/doc/remat/examples/embed.c ]
# Asserts are off: nothing calls the function that a failed one does.
for binary in unpacked/usr/bin/remat-* unpacked/$library/libremat.so; do
    ! nm --dynamic --undefined-only "$binary" | grep __assert_fail || { echo "$binary has asserts"; exit 1; }
done

# The root: the files of the packages depended on, copied from this system, and their states. It is changed in a mount
# namespace of its own.
names() { tr , '\n' | sed 's/^ *//; s/[ (|:].*//; /^$/d' | sort -u; }
needed=
more=$(dpkg-deb -f "$package" Depends | names)
until [ "$more" = "$needed" ]; do
    needed=$more
    more=$(dpkg-query -W -f '${Package}\n${Pre-Depends},${Depends}\n' $needed | names)
done
mkdir -p root/{proc,usr/lib,usr/lib64} root/var/lib/dpkg/{info,updates,triggers}
dpkg-query -L $needed | grep ^/ | sort -u | sed 's|^/||' | tar -C / -c --no-recursion -T - | tar -C root -x
dpkg-query -s $needed >root/var/lib/dpkg/status

cat >inside.sh <<'COMMANDS'
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
dpkg --root="$PWD/root" -i "$1" >install.log 2>&1 || { cat install.log; exit 1; }
mount --rbind /proc root/proc
chroot root remat-graph gpt2-tiny -o tiny.fbs
chroot root remat-compile tiny.fbs --budget 142MB -o tiny.plan
chroot root remat-run tiny.plan --ids zipf --steps 1
chroot root remat-dump tiny.plan --summary

export PKG_CONFIG_SYSROOT_DIR=$PWD/root PKG_CONFIG_LIBDIR=$PWD/root/$2/pkgconfig
read -ra flags < <(pkg-config --cflags --libs remat)
$CC root/usr/share/doc/remat/examples/embed.c "${flags[@]}" -o root/usr/bin/embed
chroot root embed tiny.plan 1
COMMANDS
as_root=(unshare --mount)
[ "$(id -u)" = 0 ] || as_root+=(--map-root-user)
if ! "${as_root[@]}" chroot / true; then
    echo "SKIP: no root and no user namespaces here, so the package was not installed"
    exit 77
fi
"${as_root[@]}" bash inside.sh "$package" "$library"

for page in unpacked/usr/share/man/man1/*; do
    tool=$(basename "$page" .1.gz)
    { sed -nE 's/^OPTION\(\w+, "([^"]+)".*/--\1/p' "source/tools/cli/${tool#remat-}.def"
      printf -- '--%s\n' help version list-options man; } | sort >options
    zcat "$page" | tr -d '\\' | sed -nE 's/^\.B (-\w, )?(--[a-z0-9-]+).*/\2/p' | sort | diff -u options -
done
