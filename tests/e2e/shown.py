# SPDX-License-Identifier: Apache-2.0
"""Text that others wrote reaches a terminal with control characters shown: every reader of every tool gets them in
names, keys, values of options and names of files.

    shown.py TOOLS TEXT"""
import json
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import container
from harness import Tools

call, text = Tools(sys.argv[1], encoding=None), os.path.abspath(sys.argv[2])
os.chdir(tempfile.mkdtemp())
# NVRTC, where --arch reaches it, keeps memory when it is unloaded.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"

# Eight bytes each; FORGED would begin a line of its own.
PAYLOADS = {"escape": b"\x1b[31mRED", "return": b"\rFORGED!", "newline": b"\nFORGED!", "delete": b"\x7f\x7f\x7fDELET",
            "C1": b"\xc2\x9b31mRED", "raw C1": b"\x9b\x9b31mRED", "override": b"\xe2\x80\xaeRIGHT",
            "isolate": b"\xe2\x81\xa6RIGHT", "line separator": b"\xe2\x80\xa8FORGE"}
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|^FORGED", re.M)
PLAN_VIEWS = [[], ["--decisions"], ["--memory"], ["--at", "0"], ["--schedule"], ["--kernels"], ["--why", "*"],
              ["--format", "json"], ["--schedule", "--format", "json"], ["--format", "trace"], ["--format", "dot"],
              ["--diff", "model.plan"], ["--diff", "model.plan", "--format", "json"]]
GRAPH_VIEWS = [[], ["--text"], ["--format", "json"], ["--format", "dot"]]
seen, calls, shown = "", 0, 0


def check(tool, *arguments):
    """What the tool says is printable UTF-8, in which escapes stand for what is not."""
    global calls, shown
    done = call(tool, *arguments)
    calls += 1
    try:
        said = (done.stdout + done.stderr).decode()
    except UnicodeDecodeError as error:
        raise AssertionError(f"{seen}: remat-{tool} {arguments}: {error}: {done.stdout + done.stderr}") from error
    found = CONTROL.search(said)
    assert not found, f"{seen}: remat-{tool} {arguments}: {found.group()!r} in {said[max(found.start() - 60, 0):][:120]!r}"
    assert done.returncode in (0, 1, 2, 3, 4, 5), f"{seen}: remat-{tool} {arguments}: {done.returncode}, {said}"
    escape = re.search(r"\\(n|r|u00|u20|x[0-9a-f]{2})", said)
    shown += bool(escape)
    return said, done.returncode, escape


def check_shown(tool, *arguments):
    said, code, escape = check(tool, *arguments)
    assert escape and code, f"{seen}: remat-{tool} {arguments}: it does not quote what it refuses: {said}"


def options_with_values(tool):
    rows = [line.split("\t") for line in call(tool, "--list-options").stdout.decode().splitlines()]
    return [row[0] for row in rows if row[1] != "flag"]


def check_graphs(payload):
    for form in ("".join(f"\\x{byte:02x}" for byte in payload).encode(), payload):
        for name in (b'graph "gpt2-tiny"', b'"h.0/attn/core"', b"%wte.weight"):
            new = name.replace(name.split(b'"')[1], form) if b'"' in name else b'%"' + form + b'"'
            assert name in graph_text, name
            pathlib.Path("hostile.graph").write_bytes(graph_text.replace(name, new))
            for view in GRAPH_VIEWS:
                check("dump", "hostile.graph", *view)
        for how in ([], ["--format", "json"], ["--print-after", "autodiff"], ["--curve", "c.csv"], ["--explain", "*", "--budget", "1MB"]):
            check("compile", "hostile.graph", *how)
    for name in (b"gpt2-tiny", b"h.1.mlp.c_proj.bias"):
        pathlib.Path("hostile.fbs").write_bytes(container.replace(graph, name, payload + name[8:]))
        for view in GRAPH_VIEWS:
            check("dump", "hostile.fbs", *view)
        check("compile", "hostile.fbs")


def check_plans(payload):
    for name in (b"gpt2-tiny", b"h.1.mlp.c_proj.bias", b"layer_norm"):
        pathlib.Path("hostile.plan").write_bytes(container.replace(plan, name, payload + name[8:]))
        for view in PLAN_VIEWS:
            check("dump", "hostile.plan", *view)
        check("run", "hostile.plan", "--text", text, "--steps", "1")


def check_json(payload):
    """As bytes, and escaped where JSON has an escape."""
    forms = [payload]
    try:
        forms.append(json.dumps(payload.decode())[1:-1].encode())
    except UnicodeDecodeError:
        pass
    for form in forms:
        for old in (b'"name"', b'"version"', b'"gpt2"'):
            pathlib.Path("hostile.json").write_bytes(description.replace(old, b'"' + form + b'"'))
            check("compile", "model.fbs", "--target", "hostile.json", "--arch", "none")
        pathlib.Path("named.json").write_bytes(re.sub(rb'"name": *"[^"]*"', b'"name": "' + form.replace(b"\\", rb"\\") + b'"', description))
        check("compile", "model.fbs", "--target", "named.json", "--arch", "none")
        check("compile", "model.fbs", "--target", "named.json", "--curve", "c.json")
        for config in (b'{"model_type": "%s"}', b'{"model_type": "gpt2", "activation_function": "%s"}', b'{"%s": 1}', b'{%s}'):
            pathlib.Path("config.json").write_bytes(config % form)
            check("graph", "config.json", "-o", "c.fbs")
        for problem in (b'{"%s": 1}', b'{"schema": "%s"}', b'{"nodes": [{"%s": 1}]}', b"{%s}"):
            pathlib.Path("problem.json").write_bytes(problem % form)
            check("solve", "problem.json", "--curve")
        for profile in (b'{"%s": 1}', b'{"schema": "%s"}', b'{"schema": "remat-profile/1", "device": "%s", "kernels": []}', b"{%s}"):
            pathlib.Path("profile.json").write_bytes(profile % form)
            check("compile", "model.fbs", "--profile", "profile.json")
        header = b'{"%s": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}' % form
        for header in (header, header.replace(b"F32", form), b"{%s}" % form):
            pathlib.Path("w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
            check("run", "model.plan", "--text", text, "--steps", "1", "--init", "w.safetensors")


def check_command_lines(payload):
    for tool, operand in (("graph", "gpt2-tiny"), ("compile", "model.fbs"), ("run", "model.plan"),
                          ("dump", "model.plan"), ("solve", "problem.json")):
        (check if tool in ("run", "solve") else check_shown)(tool, payload)
        check_shown(tool, operand, payload)
        check_shown(tool, operand, b"--" + payload)
        check_shown(tool, operand, b"-" + payload)
        for option in options_with_values(tool):
            check(tool, operand, option, b"no/such/" + payload if option.startswith(("--output", "--save-")) else payload)
    said, code, escape = check("compile", "model.fbs", "-o", payload + b".plan")
    assert code == 0 and escape and os.path.exists(payload + b".plan"), said
    said, code, escape = check("compile", "model.fbs", "--format", "json", "-o", payload + b".plan")
    assert code == 0 and json.loads(said)["plan"].endswith(".plan"), said
    check("compile", "model.fbs", "--curve", payload + b".csv")
    check("dump", payload + b".plan")
    check_shown("dump", payload + b".plan", "--text")
    check("graph", "gpt2-tiny", "--name", payload, "--text")
    check("graph", "gpt2-tiny", "--name", payload, "-o", "named.fbs")


call("graph", "gpt2-tiny", "--layers", "2", "-o", "model.fbs")
call("compile", "model.fbs", "--arch", "none", "-o", "model.plan")
graph, plan = pathlib.Path("model.fbs").read_bytes(), pathlib.Path("model.plan").read_bytes()
graph_text = call("graph", "gpt2-tiny", "--layers", "2", "--text").stdout
root = pathlib.Path(__file__).resolve().parent.parent.parent
description = (root / "schemas/devices/h100-sxm.json").read_bytes()
for seen, payload in PAYLOADS.items():
    check_graphs(payload)
    check_plans(payload)
    check_json(payload)
    check_command_lines(payload)
print(f"{calls} calls, of which {shown} show an escape")
