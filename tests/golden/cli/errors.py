# SPDX-License-Identifier: Apache-2.0
"""Command lines that must fail: their message, their exit code, and no file left. Each rule of
compiler/policy/rules.def needs one that breaks it.

    errors.py REMAT_GRAPH REMAT_COMPILE

With REMAT_UPDATE_GOLDEN=1 in the environment it writes errors.txt instead of comparing."""
import difflib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
RULES = HERE / "../../../compiler/policy/rules.def"
RULE = re.compile(r'^RULE\((\w+), (\w+), .*,\n\s+"((?:\\.|[^"\\])*)"\)$', re.M)
NAMES = {"MODEL": "model.fbs", "FLAT": "flat.fbs", "UNBOUND": "unbound.fbs", "TEXT": "text.fbs",
         "NO_LAYERS": "no_layers.graph", "SPARSE": "sparse.graph", "NO_LOSS": "no_loss.graph", "ODD": "odd.graph",
         "WIDE_HEADS": "wide_heads.fbs", "ODD_HEADS": "odd_heads.fbs"}
USAGE = 2


def make_models(remat_graph, folder):
    subprocess.run([remat_graph, "gpt2-tiny", "-o", folder / "model.fbs"], check=True)
    subprocess.run([remat_graph, "gpt2-tiny", "--unbound", "batch", "-o", folder / "unbound.fbs"],
                   check=True)
    subprocess.run([remat_graph, "mlp-tiny", "-o", folder / "flat.fbs"], check=True)
    for name, sizes in [("wide_heads", ["--width", "256", "--heads", "1"]),
                        ("odd_heads", ["--width", "63", "--heads", "21", "--dtype", "bf16"])]:
        subprocess.run([remat_graph, "gpt2-tiny", "--layers", "1", *sizes, "-o", folder / f"{name}.fbs"], check=True)
    h200 = json.loads((HERE / "../../../schemas/devices/h200.json").read_text(encoding="utf-8"))
    h200["cuda"]["workspace_bytes"] = 256
    (folder / "small.json").write_text(json.dumps(h200))
    (folder / "used").mkdir()
    (folder / "used/kernel.cu").write_text("")
    (folder / "text.fbs").write_text("namespace remat.graph;\n")
    for graph in HERE.glob("*.graph"):
        shutil.copy(graph, folder)


def unmatched_rules(messages):
    """The rules whose message is none of `messages`: holes in braces match anything."""
    text = RULES.read_text(encoding="utf-8")
    rules = RULE.findall(text)
    if len(rules) != len(re.findall(r"^RULE\(", text, re.M)):
        return [f"{RULES}: some rows are not understood"]
    faults = []
    for _, name, message in rules:
        parts = re.split(r"\{\w+\}", message.replace('\\"', '"'))
        pattern = re.compile(".+".join(map(re.escape, parts)))
        if not any(pattern.fullmatch(said) for said in messages):
            faults.append(f"{HERE / 'errors.def'}: no command line breaks the rule {name}")
    return faults


def main():
    remat_graph, remat_compile = map(os.path.abspath, sys.argv[1:])
    lines = (HERE / "errors.def").read_text(encoding="utf-8").splitlines()
    cases = [line for line in lines if line and not line.startswith("#")]
    observed, faults, refused = "", [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_models(remat_graph, folder)
        before = sorted(os.listdir(folder))
        for case in cases:
            words = [NAMES.get(word, word) for word in shlex.split(case)]
            done = subprocess.run([remat_compile, *words], cwd=folder, encoding="utf-8",
                                  stdin=subprocess.DEVNULL, capture_output=True)
            observed += f"$ remat-compile {case}\n{done.stdout}{done.stderr}"
            observed += f"exit code: {done.returncode}\n\n"
            if done.returncode == USAGE:
                refused += re.findall("^remat-compile: error: (.*)$", done.stderr, re.M)
            if done.returncode == 0 or sorted(os.listdir(folder)) != before:
                faults.append(f"remat-compile {case}: exit code {done.returncode}, "
                              f"files {sorted(os.listdir(folder))}")
    faults += unmatched_rules(refused)
    golden = HERE / "errors.txt"
    if os.environ.get("REMAT_UPDATE_GOLDEN") == "1":
        golden.write_text(observed, encoding="utf-8")
    expected = golden.read_text(encoding="utf-8") if golden.exists() else ""
    faults += difflib.unified_diff(expected.splitlines(), observed.splitlines(), str(golden),
                                   "observed", lineterm="")
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main())
