# SPDX-License-Identifier: Apache-2.0
"""A run with a time: after it no step begins, the run ends as an interrupted one does, and has the bits of an
uninterrupted one when it is resumed, on one rank and on two. On a terminal a line of progress has the figures of the
JSON lines and leaves nothing on the screen but what is printed elsewhere too.

    watched.py TOOLS"""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import tty

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import (INTERRUPTED, ROOT, TEXT, USAGE, Tools, begin, check, finish, json_lines, lines_of, must, read_json, refused,
                     scratch, write_json)

LIMIT_S = 120  # of a process; a loaded machine takes its time: nothing may wait for ever
tool = Tools(sys.argv[1], timeout=LIMIT_S)
TIMES = {"tokens_per_s", "step_ns", "unix_s"}


def make_plans():
    """Of one training, on one rank and on two."""
    tool.must("graph", "gpt2-tiny", "--batch", 4, "--seq", 64, "--dropout", 0.1, "-o", "m.fbs")
    tool.must("compile", "m.fbs", "-o", "one.plan")
    tool.must("compile", "m.fbs", "--mesh", "dp=2", "-o", "two.plan")
    device = read_json(ROOT / "schemas/devices/cpu.json")  # of this processor, so that its peak is known
    device["name"] = re.search(r"^model name\s*: (.*)$", open("/proc/cpuinfo", encoding="utf-8").read() + "model name: cpu", re.M)[1] + ", 1 thread"
    write_json("here.json", device)
    tool.must("compile", "m.fbs", "--target", "./here.json", "-o", "here.plan")


def training(plan, *arguments):
    return ["run", plan, "--text", TEXT, "-j", 1, "--lr", 1e-3, "--schedule", "cosine", "--decay-steps", 1000, "--json", *arguments]


# --- --stop-after ---

def without_times(lines):
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def read_log(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def stop_while_it_waits(plan, seconds):
    """A run that stands still when its time passes: steps that it had done before, and all that it did."""
    begin = time.monotonic()
    with tool.start(*training(plan, "--steps", 10**9, "--stop-after", f"{seconds}s", "--checkpoint", "c", "--every", 3,
                              "--log", "stopped.jsonl", "--save-weights", "stopped.w", "--report", "report.json")) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        before = len(read_log("stopped.jsonl")) if first else 0
        time.sleep(max(0, begin + seconds - time.monotonic()))
        process.send_signal(signal.SIGCONT)
        rest, said = process.communicate(timeout=LIMIT_S)
    lines = [json.loads(line) for line in (first + rest).splitlines()]
    check(process.returncode == INTERRUPTED and f"stopped after step {len(lines)} of 1000000000 (--stop-after {seconds}s)\n" in said,
          plan, process.returncode, said)
    return before, lines


def stopped(plan):
    for seconds in 1, 2, 4, 8, 16, 32:  # until a step has begun in time
        shutil.rmtree("c", ignore_errors=True)
        before, lines = stop_while_it_waits(plan, seconds)
        if lines:
            break
    check(before <= len(lines) <= before + 1, plan, before, "steps in time, in all", len(lines))
    check(read_json("report.json")["completed"] is False and os.path.exists("stopped.w"), plan, "outputs")
    check(os.path.exists(f"c/step-{len(lines):010}.safetensors"), plan, os.listdir("c"))
    steps = len(lines) + 2
    more = json_lines(tool(*training(plan, "--steps", steps, "--resume", "c", "--log", "stopped.jsonl", "--save-weights", "stopped.w",
                                     "--stop-after", "5h30m")))
    whole = json_lines(tool(*training(plan, "--steps", steps, "--log", "whole.jsonl", "--save-weights", "whole.w")))
    check(without_times(lines + more) == without_times(whole) and len(whole) == steps, plan, lines + more, whole)
    check(without_times(read_log("stopped.jsonl")) == without_times(read_log("whole.jsonl")), plan, "the log")
    check(open("stopped.w", "rb").read() == open("whole.w", "rb").read(), plan, "the weights")


def without_a_step():
    """The time is over when all is loaded; then an evaluation; a time that is none."""
    for options in [], ["--eval"]:
        done = tool("run", "one.plan", "--text", TEXT, "--steps", 5, "--stop-after", "1ms", *options)
        check(done.returncode == INTERRUPTED and "step 1 " not in done.stdout and
              done.stderr == "remat-run: stopped after step 0 of 5 (--stop-after 1ms)\n", done.stdout, done.stderr)
    done = must(tool("run", "one.plan", "--text", TEXT, "--steps", 1, "--stop-after", "3h50m"))
    check("stopped" not in done.stderr, done.stderr)
    for text in "soon", "0", "1h30", "12d":
        refused(tool("run", "one.plan", "--text", TEXT, "--stop-after", text), USAGE, re.compile(
            f"--stop-after '{text}' is not a time \\(accepted: 1ms to 1000000s, as 500ms, 10s, 2min, 3h50m\\)"), text)


# --- progress ---

FRAME = re.compile(r"step (\d+)/(\d+)(?:  loss (\d+\.\d{4}))?(?:  ([\d,.]+) tokens/s)?(?:  MFU ([\d.]+) %)?(?:  ((?:\d+:)?\d+:\d\d) left)?")
ERASE = "\r\033[K"


class Terminal:
    """What a process wrote to it, as it came and as the lines on its screen. Once it has written `sign`, act(process)."""

    def __init__(self, columns, *arguments, env=None, stdout=None, sign=None, act=None):
        terminal, end = pty.openpty()
        tty.setraw(end)
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with open(terminal, encoding="utf-8", newline="") as screen, \
                begin(subprocess.Popen, [tool.path("run"), *arguments], env={"TERM": "xterm", **(env or {})}, stdout=stdout or end, stderr=end) as process:
            os.close(end)
            self.written = ""
            for part in parts_of(screen):
                self.written += part
                if sign and sign in self.written:
                    sign = act(process)
            self.code = process.wait(LIMIT_S)

    def lines(self):
        """Of a screen that is wide enough: what was not written over."""
        lines = [""]
        for part in re.findall(r"\r\033\[K|\n|[^\r\n\033]+", self.written):
            if part == ERASE:
                lines[-1] = ""
            elif part == "\n":
                lines.append("")
            else:
                lines[-1] += part
        check("\r" not in self.written.replace(ERASE, "") and "\033" not in self.written.replace(ERASE, ""), repr(self.written))
        return lines

    def frames(self):
        """The lines of progress in the order in which they were shown."""
        return [match for match in (FRAME.fullmatch(part) for part in re.split(r"\r\033\[K|\n", self.written)) if match]


def parts_of(screen):
    return lines_of(type("", (), {"readline": lambda _: os.read(screen.fileno(), 65536).decode()})())


def rate_text(rate):
    """Of a number that JSON has with three digits."""
    return f"{rate:,.2f}" if rate < 100 else f"{rate:,.0f}"


def check_frames(terminal, steps, lines, model_ns, what):
    """Step 0, then every step but the last one, each with the figures of its JSON line."""
    frames = terminal.frames()
    check([(int(f[1]), int(f[2])) for f in frames] == [(step, steps) for step in range(steps)], what, terminal.written)
    for frame, line in zip(frames[1:], lines):
        check(frame[3] == f"{line['loss']:.4f}" and abs(float(frame[4].replace(",", "")) - line["tokens_per_s"]) <= 0.501, what, frame[0], line)
        check(frame[6] and (frame[5] is not None) == bool(model_ns), what, frame[0])
        check(not model_ns or abs(float(frame[5]) - 100 * model_ns / line["step_ns"]) <= 0.0501 + 1e-3, what, frame[0], line)


def progress():
    plan = json.loads(tool.must("dump", "here.plan", "--format", "json").stdout)
    for name, model_ns in ("here.plan", plan["mfu"] * plan["step_ns"]), ("one.plan", 0), ("two.plan", 0):
        with open("steps.json", "w", encoding="utf-8") as steps:
            shown = Terminal(120, *training(name, "--steps", 4, "--log", "log.jsonl", "--checkpoint", "p", "--every", 2)[1:], stdout=steps)
        shutil.rmtree("p")
        lines = read_log("steps.json")
        check(shown.code == 0 and len(lines) == 4, name, shown.written)
        check_frames(shown, 4, lines, model_ns, name)
        left = [line for line in shown.lines() if line]
        said = must(tool(*training(name, "--steps", 4))).stderr
        check([line[:12] for line in left] == [line[:12] for line in said.splitlines() if line], name, left, said)
    for columns, parts in (70, (3, 4, 6)), (46, (3, 6)), (26, (3,)), (12, ()):
        shown = Terminal(columns, "one.plan", "--ids", "zipf", "--steps", 3, "-j", 1)
        frames = shown.frames()[1:]
        check(all([i for i in range(3, 7) if frame[i]] == [*parts] and len(frame[0]) < columns for frame in frames) and len(frames) == 2,
              columns, shown.written)
        check([line for line in shown.lines() if line.startswith("step")][:3] ==
              [line for line in must(tool("run", "one.plan", "--ids", "zipf", "--steps", 3, "-j", 1)).stdout.splitlines() if line][:3],
              "beside lines of steps", columns, shown.written)


def without_progress():
    """Where a line cannot be written over, and where what reads standard output may write to the same terminal."""
    few = ["one.plan", "--text", TEXT, "--steps", 2, "-j", 1]
    for settings in {"env": {"TERM": "dumb"}}, {"stdout": subprocess.PIPE}:
        shown = Terminal(80, *few, **settings)
        check(shown.code == 0 and not shown.frames() and "\033" not in shown.written, settings, shown.written)
    done = must(tool("run", *few))
    check("\r" not in done.stdout + done.stderr and "/2" not in done.stdout + done.stderr, done.stderr)


def interrupted():
    """The line stays and gets its end, so messages begin a new one."""
    with open("steps.json", "w", encoding="utf-8") as steps:
        shown = Terminal(80, *training("one.plan", "--steps", 10**9)[1:], stdout=steps, sign="step 2/",
                         act=lambda process: process.send_signal(signal.SIGINT))
    lines, count = shown.lines(), len(read_log("steps.json"))
    check(shown.code == INTERRUPTED and f"remat-run: interrupted after step {count} of 1000000000" in lines, shown.written)
    check(sum(bool(FRAME.fullmatch(line)) for line in lines) == 1, lines)


def told():
    """A message comes above the line, which comes back."""
    os.mkfifo("fifo")
    reader = []
    with open("steps.json", "w", encoding="utf-8") as steps:
        shown = Terminal(120, *training("one.plan", "--steps", 2, "--log", "fifo")[1:], stdout=steps, sign="fifo: ",
                         act=lambda process: reader.append(os.open("fifo", os.O_RDONLY)))
    check(len(os.read(reader[0], 1 << 16).splitlines()) == 2, "lines of the log")
    check(shown.written.startswith(f"step 0/2{ERASE}remat-run: fifo: waiting for a process that reads from it\nstep 0/2{ERASE}step 1/2  loss"), shown.written)


def main():
    with scratch():
        make_plans()
        progress()
        without_progress()
        interrupted()
        told()
        stopped("one.plan")
        stopped("two.plan")
        without_a_step()
    finish()


main()
