#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what remat needs on Debian 12, and nothing when it is there already.
#   tools/setup.sh                 the tools that build remat
#   tools/setup.sh --for-tests     also those that its tests need
#   tools/setup.sh --with-torch    these and .venv with PyTorch (CPU use), transformers and the package of tools/python
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(gcc g++ meson ninja-build pkg-config flatbuffers-compiler libflatbuffers-dev libjansson-dev libxxhash-dev
          dpkg-dev python3 git ca-certificates)
test_packages=(clang clang-format clang-tidy libclang-rt-14-dev openmpi-bin libopenmpi-dev zsh python3-venv
               chromium chromium-driver python3-selenium)

# Newest releases that were tried together; PyTorch finds the CUDA libraries of the system first.
torch_always=(torch==2.15.0 nvidia-cufile==1.17.1.22 nvidia-cusparselt-cu13==0.8.1
              nvidia-nccl-cu13==2.30.7 nvidia-nvshmem-cu13==3.7.2
              nvidia-cuda-nvdisasm==13.5.37)
torch_without_cuda=(nvidia-cublas==13.4.1.3 nvidia-cuda-runtime==13.2.86 nvidia-cuda-nvrtc==13.2.86
                    nvidia-cuda-cupti==13.2.86 nvidia-cufft==12.2.0.57 nvidia-cusparse==12.7.10.12
                    nvidia-cudnn-cu13==9.26.0.51)
torch_python=(setuptools==80.9.0 typing_extensions sympy networkx filelock jinja2 fsspec numpy safetensors
              transformers==5.23.0)

fail() {
    echo "setup.sh: $1" >&2
    exit 1
}

install_packages() {
    command -v dpkg-query >/dev/null || fail "this script installs with apt; on other systems install by hand: ${packages[*]}"
    local missing=() package
    for package in "${packages[@]}"; do
        grep -qx "$package:installed" <<<"$installed" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "run as root (no sudo here): apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    echo "setup.sh: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

peers_work() {
    [ -x .venv/bin/python ] &&
        .venv/bin/python -c 'import torch, numpy, safetensors.torch, transformers; torch.mm(torch.ones(2, 2), torch.ones(2, 2))' \
            >/dev/null 2>&1
}

install_torch() {
    local wheels=("${torch_always[@]}")
    local libraries
    libraries=$(/sbin/ldconfig -p)
    if ! [[ $libraries == *libcublasLt.so.13* && $libraries == *libcudnn.so.9* ]]; then
        wheels+=("${torch_without_cuda[@]}")
    fi
    echo "setup.sh: installing PyTorch into .venv (some gigabytes)"
    /usr/bin/python3 -m venv --clear .venv &&
        .venv/bin/python -m pip install -q --disable-pip-version-check uv &&
        .venv/bin/uv pip install -q --python .venv/bin/python --no-deps "${wheels[@]}" &&
        .venv/bin/uv pip install -q --python .venv/bin/python "${torch_python[@]}" &&
        peers_work && touch .venv/peers_work
}

package_works() {
    .venv/bin/python -c 'import importlib.metadata; importlib.metadata.version("remat")' >/dev/null 2>&1
}

# Editable, so that it is the package of this tree; without isolation it needs no network.
install_package() {
    .venv/bin/uv pip install -q --python .venv/bin/python setuptools==80.9.0 &&
        .venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e tools/python
}

case "${1-}" in
'') ;;
--for-tests | --with-torch) packages+=("${test_packages[@]}") ;;
*) fail "unknown option '$1' (accepted: --for-tests, --with-torch)" ;;
esac
installed=$(dpkg-query -W -f '${Package}:${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
install_packages

if [ "${1-}" = --with-torch ] && ! [ -e .venv/peers_work ] && ! peers_work && ! install_torch; then
    [ "${CI-}" != true ] || fail "PyTorch could not be installed into .venv"
    echo "SKIP: PyTorch could not be installed into .venv; comparisons with it will be skipped"
fi
if [ "${1-}" = --with-torch ] && peers_work && ! package_works && ! install_package; then
    [ "${CI-}" != true ] || fail "tools/python could not be installed into .venv"
    echo "SKIP: tools/python could not be installed into .venv; its tests use it from the tree"
fi
