# SPDX-License-Identifier: Apache-2.0
"""A rank under mpirun that ends, dies or hangs at a random step, is missing or does not fit at the start, ends the job
within its deadline, with a message and a code other than 0; code 0 always comes with a report that says "completed".
What was killed and resumed has the bits of a run that was not.

    failures.py TOOLS_DIRECTORY MPIRUN LEAVE_LIBRARY [RUNS_OF_EACH]"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INTERRUPTED, TEXT, USAGE, Tools, check, finish, must, run, scratch

tool, MPIRUN, LEAVE = Tools(sys.argv[1], timeout=60), sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
COUNT = int(sys.argv[4]) if len(sys.argv) > 4 else 3  # once on each rank
MANY = COUNT > 10  # as in the benchmark
FEWER = max(3, COUNT // 4)  # of what is rarely what it is meant to be
STARTS = COUNT if MANY else 3  # nothing is drawn there
RANKS, DEADLINE_S, GRACE_S, AT_ONCE, SEED = 3, 2, 3, 4, 19
START_S, LIMIT_S, TRIES = 10, 60, 3  # of a job, with its steps; of any process
LOST = INTERRUPTED
# What is done to a rank: the signal, and the code of the job. A rank that ends has the job's code, by mpirun, where an
# early exit(0) is 1.
FAULTS = {"exit(3)": (signal.SIGUSR2, 3), "exit(0)": (signal.SIGUSR1, 1), "SIGKILL": (signal.SIGKILL, 128 + 9),
          "SIGSEGV": (signal.SIGSEGV, 128 + 11), "SIGSTOP": (signal.SIGSTOP, LOST)}
WAITED = re.compile(r"rank \d on \S+ (is told to end, and )?waited \S+ s at transfer(s \d+ to \d+, first| \d+) \"\S+\" of \d+ bytes "
                    r"(along dp|among all) \(3 ranks\); missing: (?P<missing>.*)")


def started(arguments, folder):
    return run([MPIRUN, *arguments], cwd=folder, timeout=LIMIT_S)


def known(*command):
    """A rank whose process is known, in the folder of a job; a signal may be its end before it initializes MPI."""
    script = ('echo $OMPI_COMM_WORLD_RANK $$ $(date +%s.%N) >>pids; '
              f'[ $OMPI_COMM_WORLD_RANK != "$EARLY_RANK" ] || kill -$EARLY_SIGNAL $$; LD_PRELOAD={LEAVE} exec "$@"')
    return ["sh", "-c", script, "rank", *command]


class Job:
    """mpirun in a folder of its own."""

    def __init__(self, work, arguments, **variables):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=work))
        self.ranks = sum(count for count, what in zip(arguments[1:], arguments[2:]) if what == "sh")
        self.hung = False  # mpirun alone
        self.process = subprocess.Popen([MPIRUN, *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, encoding="utf-8", env={**os.environ, **variables})

    def wait_for_step(self, step):
        """False: it has ended before."""
        return any(line.startswith(f"step {step} ") for line in self.process.stdout)

    def processes(self):
        """Of each rank that has begun: rank, process, time."""
        path = self.folder / "pids"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def send(self, rank, number):
        pids = {known: pid for known, pid, _ in self.processes()}
        try:
            os.kill(int(pids[str(rank)]), number)
        except ProcessLookupError:
            pass  # it has finished

    def wait_for_ranks(self):
        """Not for mpirun, which takes up to two seconds more if one has another code than 0, on a loaded machine longer."""
        while self.process.poll() is None and (len(self.processes()) < self.ranks or self.left()):
            time.sleep(0.01)

    def end(self):
        """Its code, seconds from now, and standard error. All its processes end with it."""
        begin = time.monotonic()
        try:
            _, error = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.hung = not self.left()
            self.process.kill()
            _, error = self.process.communicate()
        seconds = time.monotonic() - begin
        while self.left() and time.monotonic() - begin < seconds + 1:
            time.sleep(0.01)  # mpirun has killed them
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)
            check(False, f"{pid} is left behind, code {self.process.returncode}: {error}")
        return self.process.returncode, seconds, error

    def left(self):
        """Processes of ranks that have not ended."""
        left = []
        for _, pid, _ in self.processes():
            try:
                if b"remat-run" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    left.append(int(pid))
            except OSError:
                pass
        return left

    def report(self):
        path = self.folder / "report.json"
        return json.loads(path.read_text()) if path.exists() else None


def started_ranks(work, *options, **variables):
    command = known(tool.path("run"), work / "model.plan", "--text", TEXT, "--timeout", DEADLINE_S, "--report", "report.json",
                    *options)
    return Job(work, ["-n", RANKS, *command], **variables)


def running(work, step, *options):
    """A job that has done a step. Where a loaded machine starts its ranks a deadline apart it ends, and another begins."""
    for _ in range(TRIES):
        job = started_ranks(work, *options)
        if job.wait_for_step(step):
            return job
        code, _, error = job.end()
        check(code == LOST and f"waited {DEADLINE_S} s" in error, f"nothing was done to it: code {code}: {error}")
    sys.exit(f"{TRIES} jobs were too slow for a deadline of {DEADLINE_S} s: {error}")


def in_the_middle(work, name, rank, step):
    job = running(work, step, "--steps", 1000000, "--save-weights", "never")
    job.send(rank, FAULTS[name][0])
    code, seconds, error = job.end()
    what = f"{name} of rank {rank} after step {step}: code {code} after {seconds:.1f} s: {error}"
    check(code == FAULTS[name][1], what)
    check(seconds < DEADLINE_S + GRACE_S, what)
    check(job.report() is None and not (job.folder / "never").exists(), f"files: {what}")
    check(any(str(rank) in re.findall(r"(\d) on \S+", said["missing"]) for said in WAITED.finditer(error)), f"no message: {what}")
    return name, seconds


def at_the_end(work, name, rank, delay_s):
    """When the last step is done: code 0 comes with a complete report."""
    job = running(work, 3, "--steps", 3)
    time.sleep(delay_s)
    job.send(rank, FAULTS[name][0])
    code, seconds, error = job.end()
    what = f"{name} of rank {rank} {delay_s:.3f} s after the last step: code {code} after {seconds:.1f} s: {error}"
    check(code in (0, LOST, FAULTS[name][1]) and seconds < DEADLINE_S + GRACE_S, what)
    check(code != 0 or (job.report() and job.report()["completed"]), f"no record: {what}")
    return code


def behind_the_end(work, rank):
    """All have finished, but a library hangs when this rank's process exits."""
    job = started_ranks(work, "--steps", 3, LEAVE_HANGS=str(rank))
    code, seconds, error = job.end()
    what = f"rank {rank} hangs when it exits: code {code} after {seconds:.1f} s: {error}"
    check(code == LOST and seconds < DEADLINE_S + GRACE_S + START_S, what)
    check(re.search(rf"rank {rank} on \S+ waited 2 s for its process to end", error), what)
    check(job.report() and job.report()["completed"], f"no record: {what}")


def unfit(work):
    """What mpirun is told to start, where not all are ranks of one plan: arguments, code (None: any but 0), message."""
    say = [tool.path("run"), work / "model.plan", "--text", TEXT, "--timeout", DEADLINE_S]
    alone, others, last = ["-n", 1, *known(*say)], ["-n", RANKS - 1, *known(*say)], [":", "-n", 1]
    return {"never a rank": ([*alone, ":", "-n", RANKS - 1, "sleep", 60], LOST,
                             r"rank 0: a process on \S+ waited 2 s for all others to initialize MPI"),
            "ends before it is a rank": ([*alone, ":", "-n", RANKS - 1, "true"], None, ""),
            "another plan": ([*others, *last, *known(say[0], work / "other.plan", *say[2:])], USAGE,
                             "rank 2 has another plan than rank 0"),
            "another build": ([*others, *last, *known("env", f"LD_LIBRARY_PATH={work}/lib", *say)], USAGE,
                              "rank 2 has another build of remat than rank 0"),
            "a world too small": (others, USAGE, "the plan is for 3 ranks, mpirun started 2 processes")}


def at_the_start(work, name, arguments, expected, message):
    job = Job(work, arguments)
    job.wait_for_ranks()
    seconds = time.time() - min(float(begun) for _, _, begun in job.processes())
    code, _, error = job.end()
    what = f"{name}: code {code} after {seconds:.1f} s: {error}"
    check(code == expected if expected else code != 0, what)
    check(seconds < DEADLINE_S + GRACE_S and re.search(message, error), what)
    return name, seconds


def before_mpi(work, rank, number):
    """Killed before it initializes MPI. Whether Debian's mpirun hung then, when all ranks had ended."""
    job = started_ranks(work, EARLY_RANK=str(rank), EARLY_SIGNAL=str(int(number)))
    code, seconds, error = job.end()
    what = f"signal {number} to rank {rank} before MPI: code {code} after {seconds:.1f} s: {error}"
    check(job.hung or (code == 128 + number and seconds < DEADLINE_S + GRACE_S), what)
    return job.hung


def hashes(text):
    return {int(line.split()[1]): line for line in text.splitlines() if re.match(r"step \d+ loss", line)}


def resumed(work, draw):
    """Killed after a random step, and resumed: each step and the weights are those of a run that was not killed."""
    checkpoints = work / "checkpoints"
    job = running(work, draw.randrange(4, 40), "--steps", 1000000, "--checkpoint", checkpoints, "--every", 3)
    job.send(draw.randrange(RANKS), signal.SIGKILL)
    check(job.end()[0] == 128 + 9, "it was not killed")
    saved = max(int(path.name[5:15]) for path in checkpoints.iterdir())

    def finish(name, *options):
        done = started(["-n", RANKS, tool.path("run"), "model.plan", "--text", TEXT, "--steps", saved + 4, "--hash",
                        "--save-weights", name, *options], work)
        check(done.returncode == 0, f"{done.args}: {done.stderr}")
        return hashes(done.stdout), (work / name).read_bytes()

    expected, weights = finish("whole")
    found, again = finish("resumed", "--resume", checkpoints)
    check(sorted(found) == list(range(saved + 1, saved + 5)) and all(found[k] == expected[k] for k in found)
          and weights == again, f"killed after checkpoint {saved}: {found}, expected {expected}")


def interrupted(work, rank, number):
    """The run ends after a step, of which there are a checkpoint and weights, though ranks have parts of them."""
    job = running(work, 3, "--steps", 1000000, "--checkpoint", "checkpoints", "--every", 1000000, "--save-weights", "weights")
    job.send(rank, number)
    begin = time.monotonic()
    job.wait_for_ranks()
    seconds = time.monotonic() - begin
    code, _, error = job.end()
    what = f"signal {number} to rank {rank}: code {code} after {seconds:.1f} s: {error}"
    last = re.search(r"interrupted after step (\d+) of 1000000", error)
    check(code == LOST and seconds < DEADLINE_S + GRACE_S and last and "have finished" not in error, what)
    check((job.folder / "weights").exists(), f"weights: {what}")
    check([int(path.name[5:15]) for path in (job.folder / "checkpoints").iterdir()] == [int(last[1])] if last else False,
          f"checkpoints: {what}")
    check(job.report() and not job.report()["completed"], f"report: {what}")
    print(f"signal {number}: {seconds:.1f} s")


def run_all(work, draw):
    cases = [(name, number % RANKS, draw.randrange(1, 60)) for name in FAULTS for number in range(COUNT)]
    draw.shuffle(cases)
    starts = [(name, *case) for name, case in unfit(work).items() for _ in range(STARTS)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(lambda case: in_the_middle(work, *case), cases))
        done += pool.map(lambda case: at_the_start(work, *case), starts)
    for name in [*FAULTS, *unfit(work)]:
        times = [seconds for other, seconds in done if other == name]
        print(f"{name}: {len(times)} runs, at most {max(times):.1f} s")
    ends = [(name, number % RANKS, draw.uniform(0, 0.2)) for name in FAULTS if name != "SIGSTOP"
            for number in range(FEWER)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(lambda case: at_the_end(work, *case), ends))
    print("at the end:", *codes)
    if MANY:
        early = [(draw.randrange(RANKS), number) for number in (signal.SIGKILL, signal.SIGSEGV) for _ in range(COUNT)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            hung = sum(pool.map(lambda case: before_mpi(work, *case), early))
        print(f"killed before MPI: {len(early)} runs, in {hung} mpirun hung when all ranks had ended")


def main():
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    with scratch() as work:
        tool.must("graph", "gpt2-tiny", "--batch", RANKS, "--seq", 8, "--layers", 1, "-o", "model.fbs")
        tool.must("compile", "model.fbs", "--mesh", f"dp={RANKS}", "--zero", 1, "-o", "model.plan")
        must(run([tool.folder.parent / "tests/e2e/stretch", "model.plan"]))  # transfers go on beside commands
        tool.must("compile", "model.fbs", "--mesh", f"dp={RANKS}", "-o", "other.plan")
        (work / "lib").mkdir()
        library = pathlib.Path(os.path.realpath(tool.folder / "../runtime/exec/libremat.so"))
        (work / "lib/libremat.so.0").write_bytes(library.read_bytes() + b"another build")
        run_all(work, draw)
        behind_the_end(work, draw.randrange(RANKS))
        resumed(work, draw)
        for rank, number in (0, signal.SIGINT), (1, signal.SIGHUP), (2, signal.SIGTERM):
            interrupted(work, rank, number)
    finish()


main()
