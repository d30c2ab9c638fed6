#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds and runs every test: with gcc, then with clang under ASan and UBSan, then what
# uses threads under TSan.
#   tools/test.sh              everything
#   tools/test.sh --quick      gcc only, without PyTorch and without the 124M model
#   tools/test.sh --changed    the form of the sources, golden files, and tests of the libraries that a change can reach
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false
case "${1-}" in
'') ;;
--quick) quick=true ;;
--changed)
    tools/setup.sh --for-tests
    tools/build.sh build -Dtests=true
    exec python3 tests/changed.py build
    ;;
*)
    echo "test.sh: unknown option '$1' (accepted: --quick, --changed)" >&2
    exit 1
    ;;
esac

logs=()
run_tests() { # directory, setup of tests/meson.build, options; failures are counted at the end
    local directory=$1 setup=$2
    logs+=("$directory/meson-logs/testlog-$setup.json")
    rm -f "${logs[-1]}"
    meson test -C "$directory" --setup "$setup" --print-errorlogs "${@:3}" || true
}

sanitized() { # directory, sanitizers; the tests' run builds what they need. Checks that end the program compile faster.
    local flags='-gline-tables-only -fno-sanitize-recover=all'
    [ -f "$1/build.ninja" ] || CC=clang CXX=clang++ meson setup "$1" -Db_sanitize="$2" -Db_lundef=false \
        --buildtype=plain -Doptimization=1 -Dc_args="$flags" -Dcpp_args="$flags"
}

if $quick; then
    tools/setup.sh --for-tests
    tools/build.sh build -Dtests=true
    run_tests build quick
else
    tools/setup.sh --with-torch
    tools/build.sh build -Dtests=true
    run_tests build full
    sanitized build-sanitize address,undefined
    run_tests build-sanitize sanitize
    sanitized build-thread thread
    run_tests build-thread thread --suite thread
fi

# The last line is 'N passed, N failed, N skipped', summed over the runs.
python3 - "${logs[@]}" <<'PYTHON'
import json
import os
import sys

def cpu_minutes():
    """Of all that the script has run: the kernel counts it for the parent of this process."""
    with open(f"/proc/{os.getppid()}/stat") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[13:15]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") / 60


def last_lines(test):
    return (test.get("stdout", "") + test.get("stderr", "")).splitlines()[-12:]


passed = failed = skipped = 0
for path in sys.argv[1:]:
    if not os.path.exists(path):
        print(f"FAILED  {path} is missing: the test run did not start")
        failed += 1
        continue
    with open(path) as log:
        for test in map(json.loads, log):
            result = test["result"]
            if result in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif result == "SKIP":
                skipped += 1
                print(f"skipped {test['name']}  ({path})")
            else:
                failed += 1
                print(f"FAILED  {test['name']}: {result}  ({path})")
                for line in last_lines(test):
                    print("    " + line[:200])
print(f"{cpu_minutes():.1f} CPU minutes")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0 or passed == 0)
PYTHON
