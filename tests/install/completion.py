# SPDX-License-Identifier: Apache-2.0
"""Completion by Tab in an interactive shell: commands typed in part must run as whole ones. The tools
accept no shortened option, so each file is there only if the shell completed its command.

    completion.py bash|zsh TOOLS_DIRECTORY COMPLETION_DIRECTORY"""
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile

PROMPT = "ready> "
COMMANDS = {  # each with the file that it makes
    "remat-graph gpt2-tiny --outp\ttiny.fbs": "tiny.fbs",
    # A file, choices as words of their own and after '=', an option given twice
    "remat-compile tin\t--ac-mo\tsel\t--ac-option op --format=js\t-o tiny.plan": "tiny.plan",
    "remat-compile tiny.fbs --recompute '*.ln_1' --recompute '*.ln_2' --save-o\tattention --ac-mo\tsel\t--ac-opt\top "
    "-o pinned.plan": "pinned.plan",
    "remat-run tiny.p\t--ids zi\t--steps 1 --schedu\tcos\t--repor\treport.json": "report.json",
}


class Terminal:
    def __init__(self, command, environment):
        self.terminal, end = pty.openpty()
        self.shell = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True)
        os.close(end)
        self.text = ""

    def wait_for_prompt(self):
        start = len(self.text)
        while PROMPT not in self.text[start:]:
            if not select.select([self.terminal], [], [], 60)[0]:
                sys.exit(f"no prompt within a minute:\n{self.text}")
            self.text += os.read(self.terminal, 4096).decode(errors="replace")

    def type(self, line):
        os.write(self.terminal, line.encode() + b"\n")
        self.wait_for_prompt()


def main():
    shell, tools, completion = sys.argv[1:]
    if not shutil.which(shell):
        print(f"SKIP: {shell} is not installed (tools/setup.sh --for-tests)")
        return 77
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "TERM": "dumb", "PS1": PROMPT, "INPUTRC": "/dev/null",
                   "HOME": "/nonexistent", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        if shell == "bash":
            terminal = Terminal([shell, "--norc", "--noprofile", "-i"], environment)
            setup = [f"source {completion}/remat.bash"]
        else:
            terminal = Terminal([shell, "-f", "-i"], environment)
            setup = [f"fpath=({completion} $fpath)", "autoload -U compinit", "compinit -u -D"]
        terminal.wait_for_prompt()
        for line in setup + list(COMMANDS):
            terminal.type(line)
        terminal.shell.kill()
        terminal.shell.wait()
        missing = [f"no {name}: {command!r}" for command, name in COMMANDS.items() if not os.path.exists(name)]
    if missing:
        print(*missing, terminal.text, sep="\n")
    return 1 if missing else 0


sys.exit(main())
