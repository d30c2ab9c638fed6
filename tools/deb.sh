#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a Debian package: tools, library, headers, man pages, completion.
#   tools/deb.sh [build directory (default: build-deb)]
# It lies in the build directory, remat_VERSION_ARCHITECTURE.deb; apt-get install ./FILE installs it.
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${1-build-deb}
options=()
if ! [ -f "$directory/build.ninja" ]; then
    options=(-Dtests=false --prefix=/usr "--libdir=lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)")
fi
tools/build.sh "$directory" "${options[@]}"

directory=$(realpath "$directory")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debian" "$work/root/DEBIAN"
meson install -C "$directory" --no-rebuild --quiet --strip --destdir "$work/root"

# Where Debian has what lies elsewhere by default.
cd "$work/root/usr/share"
gzip -9n man/man1/*
mv zsh/site-functions zsh/vendor-completions
mv doc/remat/LICENSE doc/remat/copyright
gzip -9n doc/remat/CHANGELOG.md
mv doc/remat/CHANGELOG.md.gz doc/remat/changelog.gz

cd "$work"
version=$("root/usr/bin/remat-graph" --version)
version=${version#* }
architecture=$(dpkg --print-architecture)
touch debian/control
depends=$(dpkg-shlibdeps -O -Sroot -lroot/usr/lib/* root/usr/bin/* root/usr/lib/*/libremat.so.* --ignore-missing-info)
cat >root/DEBIAN/control <<CONTROL
Package: remat
Version: $version
Architecture: $architecture
Maintainer: remat maintainers <maintainers@remat.invalid>
Section: science
Priority: optional
Depends: ${depends#shlibs:Depends=}
Suggests: openmpi-bin
Installed-Size: $(du -sk root/usr | cut -f 1)
Description: rematerialization compiler for transformer training
 Compiles the training graph of a transformer into a plan for a given number
 of bytes: what is saved, what is recomputed, and where each tensor lies. A
 runtime library in C runs the plan.
CONTROL
echo 'activate-noawait ldconfig' >root/DEBIAN/triggers
dpkg-deb --build --root-owner-group root "$directory/remat_${version}_$architecture.deb"
