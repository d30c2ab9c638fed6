# SPDX-License-Identifier: Apache-2.0
"""tools/wheel.sh: its wheel, installed by pip into a folder, plans with the library inside, which needs nothing that
manylinux has not; no other one is loaded. REMAT_PREFIX goes before it, remat-compile on PATH after it, and a library of
another version is refused with what to install.

    wheel.py SCRATCH"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from harness import ROOT, check

NAME = "libremat-compiler.so.0"
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
PLAN = """
import torch, remat
from torch import nn
model = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))))
backend = remat.backend(budget="5MB", model=model, kernels="aot_eager")
torch.compile(lambda x: model(x).square().mean(), backend=backend)(torch.randn(512, 64)).backward()
assert backend.report().planned_peak_bytes <= 5_000_000, backend.report()
print(remat.__file__)
print(*{row.split()[-1] for row in open("/proc/self/maps") if "libremat" in row or "jansson" in row}, sep="\\n")
"""
LOAD = """
import sys, types
sys.modules["remat"] = types.ModuleType("remat")  # without PyTorch, which takes seconds
sys.modules["remat"].__path__ = [sys.path[1] + "/remat"]
from remat import _library
print(_library.load()._name)
"""


def run(site, code, **environment):
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "HOME": str(site), **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, cwd=site, capture_output=True, text=True, check=False)


def build(scratch):
    subprocess.run([ROOT / "tools/wheel.sh", scratch / "build"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "PYTHON": sys.executable})
    wheel, = (scratch / "build").glob("remat-*.whl")
    site = scratch / "site"
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index",
                    "--target", site, wheel], check=True)
    return wheel, site


def check_needed(wheel, site):
    """The tag's glibc is the newest that a library inside asks for; other libraries are everywhere, or inside."""
    inside = sorted((site / "remat").glob("lib*.so*"))
    newest = (0, 0)
    for library in inside:
        said = subprocess.run(["readelf", "--dynamic", "--version-info", library], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))
        check(needed <= EVERYWHERE | {one.name for one in inside}, f"{library.name} needs {sorted(needed)}")
        newest = max(newest, *(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", said)))
        check(library.name == NAME or list(site.glob(f"*.dist-info/**/LICENSE.{library.name}")), f"no license of {library.name}")
    tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    check(tag and tuple(map(int, tag.groups())) == newest[:2], f"{wheel.name}, and the newest glibc asked for is {newest}")


def check_plan(site):
    done = run(site, PLAN)
    loaded = done.stdout.split()
    check(done.returncode == 0 and len(loaded) == 3 and all(path.startswith(f"{site}/remat/") for path in loaded),
          f"planning with the wheel: {done.stdout}{done.stderr}")


def check_places(scratch, site):
    """Where the library is looked for, and what is said where it is another or none."""
    own = site / "remat" / NAME
    version = re.search(rb"\d+\.\d+\.\d+-[0-9a-f]{16}", own.read_bytes())[0]
    other = version[:-16] + b"0" * 16
    prefix = scratch / "prefix"
    (prefix / "lib").mkdir(parents=True, exist_ok=True)
    (prefix / "bin").mkdir(exist_ok=True)
    shutil.copy(site / "remat/libjansson.so.4", prefix / "lib")
    (prefix / "lib" / NAME).write_bytes(own.read_bytes().replace(version, other))
    (prefix / "bin/remat-compile").write_text("#!/bin/sh\n")
    (prefix / "bin/remat-compile").chmod(0o755)
    onto = {"PATH": f"{prefix}/bin:/usr/bin:/bin"}
    words = [str(prefix / "lib" / NAME), other.decode(), version.decode(), "install both"]

    def refused(what, done, words):
        said = done.stderr.strip().splitlines()[-1:] or [""]
        check(done.returncode == 1 and all(word in said[0] for word in words), f"{what}: {done.stdout}{done.stderr}")
    check(run(site, LOAD, **onto).stdout.strip() == str(own), "the library inside goes before remat-compile's")
    refused("REMAT_PREFIX goes before the library inside", run(site, LOAD, REMAT_PREFIX=str(prefix)), words)
    own.rename(scratch / NAME)
    refused("remat-compile on PATH", run(site, LOAD, **onto), words)
    refused("no library", run(site, LOAD), ["install remat 0.1.0", "docs/install.md"])
    shutil.move(scratch / NAME, prefix / "lib" / NAME)
    check(run(site, LOAD, **onto).stdout.strip() == str(prefix / "lib" / NAME), "the library beside remat-compile")


def main():
    if not importlib.util.find_spec("torch"):
        print("SKIP: no PyTorch (tools/setup.sh --with-torch)")
        return 1 if os.environ.get("CI") == "true" else 77
    scratch = pathlib.Path(sys.argv[1]).resolve()
    scratch.mkdir(exist_ok=True)
    for old in scratch.glob("build/remat-*.whl"):
        old.unlink()
    wheel, site = build(scratch)
    check_needed(wheel, site)
    check_plan(site)
    check_places(scratch, site)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
