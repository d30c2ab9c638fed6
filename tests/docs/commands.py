# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a Markdown document in a scratch directory and compares what they print with
what the document shows.

    commands.py BUILD_DIRECTORY DOCUMENT [--long | --short] [--update]

What is a command, with a line that ends in a backslash continued by the next:
  ```console        lines that start with "$ "; what follows one is what it prints (both streams). A line
                    "..." stands for any number of lines; a command without lines may print anything.
  ```sh             every line
  indented blocks   lines that start with "$ " as above, and lines that start with "remat-"
"```console skip=REASON" (or sh) is not run; the reason is printed. remat-run of a plan whose arena is
larger than 1 GB is run with --long only, and with it the other commands of its block alone; --short leaves
out all that --long runs.

The scratch directory holds what a user at the root of the repository has (docs, tests, tools), "FILE"
for the text, and where the document names it the model that the documents speak of: model.fbs, model.plan
(124M, batch 2, seq 512, 2.2GB). Every command must exit with 0. In what remat-run prints, times and measured bytes
are not compared.

--update writes what the commands print into the document, where it shows output at all. Around "..." each line shown
takes the figures of the printed line that is the same but for figures. Read the diff."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG_BYTES = 10**9
FENCE = re.compile(r"^```(\w*) *(.*)$")


class Command:
    def __init__(self, line, text):
        self.line, self.text, self.expected = line, text, []
        self.skip, self.block, self.observed = "", 0, []


def blocks(lines):
    """(number of the first line, kind, info, lines): kind is a fence's language or "indented"."""
    number = 0
    while number < len(lines):
        fence = FENCE.match(lines[number])
        begin = number + 1
        if fence:
            end = lines.index("```", begin)
            yield begin + 1, fence[1], fence[2], lines[begin:end]
            number = end + 1
        elif lines[number].startswith("    ") and (number == 0 or not lines[number - 1]):
            while number < len(lines) and (not lines[number] or lines[number].startswith("    ")):
                number += 1
            yield begin, "indented", "", [line[4:] for line in lines[begin - 1:number]]
        else:
            number += 1


def commands_of(kind, lines, first):
    """Lines before the first command belong to none."""
    found, continued = [], False
    for number, line in enumerate(lines, first):
        dollar = kind in ("console", "indented") and line.startswith("$ ")
        bare = kind == "sh" and line or kind == "indented" and re.match(r"remat-\w+ ", line)
        if continued:
            found[-1].text += "\n" + line
        elif dollar or bare:
            found.append(Command(number, line[2:] if dollar else line))
        elif found and kind != "sh":
            found[-1].expected.append(line)
        else:
            continue
        continued = line.endswith("\\")
    for command in found:
        while command.expected and not command.expected[-1]:
            command.expected.pop()
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    found = []
    for first, kind, info, block in blocks(lines):
        if kind not in ("console", "sh", "indented"):
            continue
        new = commands_of(kind, block, first)
        if info and not re.match(r"skip=\S", info):
            sys.exit(f"{path}:{first - 1}: unknown \"{info}\" (accepted: skip=REASON)")
        for command in new:
            command.skip, command.block = info[len("skip="):], first
        found += new
    return found


def environment(build, scratch, texts):
    env = dict(os.environ, LC_ALL="C", XDG_CACHE_HOME=os.path.join(scratch, "cache"))
    env["PATH"] = os.path.join(build, "tools") + os.pathsep + env["PATH"]
    for name in ("docs", "tests", "tools"):
        os.symlink(os.path.join(ROOT, name), os.path.join(scratch, name))
    os.symlink(os.path.join(ROOT, "tests/data/genesis_exodus.txt"), os.path.join(scratch, "FILE"))
    if re.search(r"\bmodel\.(fbs|plan)\b", texts):
        for command in ("remat-graph gpt2-124m --batch 2 --seq 512 -o model.fbs",
                        "remat-compile model.fbs --budget 2.2GB -o model.plan"):
            subprocess.run(command.split(), cwd=scratch, env=env, check=True, stdout=subprocess.DEVNULL)
    if "pkg-config" in texts:
        install(build, os.path.join(scratch, "installed"), env)
    return env


def install(build, destination, env):
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir",
                    destination], check=True, stdout=subprocess.DEVNULL)
    for folder, _, files in os.walk(destination):
        if "remat.pc" in files:
            env["PKG_CONFIG_PATH"] = folder
            env["PKG_CONFIG_SYSROOT_DIR"] = destination
            env["LD_LIBRARY_PATH"] = os.pathsep.join([os.path.dirname(folder), env.get("LD_LIBRARY_PATH", "")])


def is_long(text, scratch, env):
    plan = re.search(r"^remat-run .*?(\S+\.plan)\b", text)
    if not plan:
        return False
    shown = subprocess.run(["remat-dump", plan[1], "--format", "json"], cwd=scratch, env=env,
                           stdout=subprocess.PIPE)
    return shown.returncode == 0 and json.loads(shown.stdout)["arena_bytes"] > LONG_BYTES


def normal(text, lines):
    """Without what differs between two runs."""
    if not text.startswith("remat-run"):
        return lines
    kept = []
    for line in lines:
        if re.match(r"(step time|tokens/s|MFU|resident memory|address space) ", line):
            line = re.sub(r"\d[\d.,]* ?([num]?s|min|h|[kMGT]?B|threads?|times)?\b", "#", line)
            line = re.sub(r" +", " ", line)
        kept.append(line)
    return kept


def matches(expected, observed):
    """Whether the lines are equal, where "..." in `expected` is any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n"
                      for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in observed))


def run(command, scratch, env, shell=("bash", "-c")):
    done = subprocess.run([*shell, command.text], cwd=scratch, env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8")
    command.observed = [line.rstrip() for line in done.stdout.splitlines()]
    if done.returncode:
        return f"exit code {done.returncode}\n{done.stdout}"
    expected = normal(command.text, command.expected)
    if expected and not matches(expected, normal(command.text, command.observed)):
        return "it prints something else:\n" + done.stdout
    return ""


def form(line):
    """What a line is about: without its figures."""
    return re.sub(r"[+-]?\d[\d.,]*|[num]?s\b|[kMGT]i?B\b| +", "", line)


def renewed(shown, printed):
    """The lines to show: those printed that have the form of one shown, "..." in the same places. None where lines shown
    have no match, or another order."""
    lines, at = [], 0
    for line in shown:
        if line.strip() == "...":
            lines.append(line)
            continue
        found = next((i for i in range(at, len(printed)) if form(printed[i]) == form(line)), None)
        if found is None:
            return None
        lines.append(printed[found])
        at = found + 1
    return lines


def update(path, commands):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for command in reversed(commands):
        shown, printed = command.expected, command.observed
        if not shown or not printed or matches(normal(command.text, shown), normal(command.text, printed)):
            continue
        new = renewed(shown, printed) if "..." in shown else printed
        if new is None:
            print(f"{path}:{command.line}: {command.text}\n  to renew by hand: lines that it shows are not printed")
            continue
        begin = command.line + command.text.count("\n")
        lines[begin:begin + len(shown)] = new
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    options = {"--long", "--short", "--update"} & set(sys.argv[3:])
    if len(sys.argv) < 3 or len(options) != len(sys.argv) - 3:
        print(__doc__)
        return 2
    build, path = os.path.abspath(sys.argv[1]), sys.argv[2]
    found = read(path)
    faults = 0
    with tempfile.TemporaryDirectory() as scratch:
        env = environment(build, scratch, "\n".join(c.text for c in found))
        parted = options & {"--long", "--short"}
        long_blocks = {c.block for c in found if is_long(c.text, scratch, env)} if parted else set()
        faults += "--long" in options and not long_blocks
        for command in found:
            where = f"{os.path.relpath(path, ROOT)}:{command.line}: {command.text}"
            if "--long" in options and command.block not in long_blocks:
                continue
            if command.skip:
                print(f"{where}\n  not run: {command.skip}")
            elif "--long" not in options and (command.block in long_blocks or is_long(command.text, scratch, env)):
                print(f"{where}\n  not run: needs --long")
            else:
                fault = run(command, scratch, env)
                faults += bool(fault)
                print(where + (f"\n  FAILED: {fault}" if fault else ""), flush=True)
    if "--update" in options:
        update(path, found)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
