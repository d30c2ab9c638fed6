# SPDX-License-Identifier: Apache-2.0
"""What the tests of the CUDA device share: tools, the doubles' folder and environment, tensors. With "-" as
compiler there are no doubles but a GPU, and with "-" as folder the libraries are where the system's loader
looks."""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import ROOT, TEXT, Tools, check, finish, json_lines, must, read_json, run

tools = Tools(sys.argv[1])
LIBRARIES = None if sys.argv[2] == "-" else pathlib.Path(sys.argv[2]).resolve()
COMPILER = sys.argv[3]
DOUBLES = COMPILER != "-"
CACHE = LIBRARIES / "kernels" if DOUBLES else None

# Meson lists the doubles' folder there, and then no driver would ever be missing.
if DOUBLES and os.environ.pop("LD_LIBRARY_PATH", None):
    os.execv(sys.executable, [sys.executable, *sys.argv])


def tool(name, *arguments, cwd, **environment):
    variables = {key: str(value) for key, value in environment.items()}
    if DOUBLES:
        CACHE.mkdir(exist_ok=True)
        variables |= {"REMAT_DOUBLE_COMPILER": COMPILER, "REMAT_DOUBLE_CACHE": str(CACHE),
                      "XDG_CACHE_HOME": "", "HOME": ""}  # a test that wants remat's cache names it
    return tools(name, *arguments, cwd=cwd, env=variables)


def graph(work, *arguments):
    must(tool("graph", *arguments, "-o", "model.fbs", cwd=work))


def plan(work, name, *arguments, cubins="none"):
    """Cubins are the double's."""
    double = ["--nvrtc", LIBRARIES, "--cache", "none"] if cubins != "none" and LIBRARIES else []
    return must(tool("compile", "model.fbs", "-o", name, *arguments, "--arch", cubins, *double, cwd=work))


def small_target(work):
    """A description of a GPU whose workspace is soon filled by the double's products."""
    target = read_json(ROOT / "schemas/devices/h200.json")
    target["cuda"]["workspace_bytes"] = 1 << 20
    (pathlib.Path(work) / "small.json").write_text(json.dumps(target))
    return "./small.json"


def train(work, name, device, *arguments, libraries=LIBRARIES, **environment):
    """device None: without --device."""
    return tool("run", name, "--text", TEXT, *(["--device", device] if device else []),
                *(["--cuda-libraries", libraries] if libraries else []), *arguments, cwd=work, **environment)


def hashes(done):
    return [(line["loss_hash"], line["grad_hash"]) for line in json_lines(done)]


def folder():
    return tempfile.TemporaryDirectory()
