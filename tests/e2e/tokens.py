# SPDX-License-Identifier: Apache-2.0
"""remat-run --tokens: every format gives its ids, in the order that a Python version of the shuffle says, on every mesh;
files that are none are refused, each with its message.

    tokens.py TOOLS_DIRECTORY LIMIT

What a step reads is seen by its hashes: a text whose bytes are the ids in the expected order gives the same. For that every
sequence begins with the same id, which is then the last target of any. LIMIT: of the address space of a run, 0: none."""
import os
import pathlib
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(sys.argv[1]).resolve()
LIMIT = int(sys.argv[2])
INVALID, IO = 4, 5
SEQ, FIRST = 16, 10  # ids of a sequence, and the one that begins it
MASK = (1 << 64) - 1
faults = []


def check(good, *what):
    if not good:
        faults.append(" ".join(map(str, what)))


def tool(name, *arguments, **settings):
    return subprocess.run([TOOLS / f"remat-{name}", *map(str, arguments)], encoding="utf-8", capture_output=True, timeout=120,
                          **settings)


def must(done):
    if done.returncode != 0:
        sys.exit(f"{done.args}: {done.stderr}")
    return done


def train(plan, *arguments, **settings):
    return tool("run", plan, "--threads", 1, "--hash", *arguments, **settings)


def steps(done):
    return re.findall(r"^step \d+ .*$", must(done).stdout, re.M)


# --- the rules of shuffle.h and data.h once more ---

def mix(state):
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def shuffle(seed, epoch, count, x):
    half = 1
    while 4**half < count:
        half += 1
    key = mix((mix(seed) + epoch) & MASK)
    while True:
        a, b = x >> half, x & (1 << half) - 1
        for r in range(12):
            a, b = b, a ^ mix((mix((key + r) & MASK) + b) & MASK) & (1 << half) - 1
        x = a << half | b
        if x < count:
            return x


def expected(sequences, seed, rows):
    count = len(sequences)
    return [sequences[shuffle(seed, r // count, count, r % count)] for r in range(rows)]


# --- files ---

def plain(ids, code="H"):
    return struct.pack(f"<{len(ids)}{code}", *ids)


def llmc(ids, code="H", magic=None, version=None, count=None):
    header = [magic or (20240520 if code == "H" else 20240801), version or (1 if code == "H" else 7),
              len(ids) if count is None else count]
    return struct.pack("<256i", *header, *[0] * 253) + plain(ids, code)


def draw(generator, count, length=SEQ, vocabulary=256):
    return [[FIRST] + [generator.randrange(vocabulary) for _ in range(length - 1)] for _ in range(count)]


def of(sequences, more=()):
    return [i for sequence in sequences for i in sequence] + [FIRST, *more]


def make_plans():
    must(tool("graph", "gpt2-tiny", "--layers", 1, "--batch", 2, "--seq", SEQ, "--dropout", 0.1, "-o", "gpt2.fbs"))
    must(tool("compile", "gpt2.fbs", "-o", "gpt2.plan"))
    must(tool("compile", "gpt2.fbs", "--microbatches", 2, "-o", "parts.plan"))
    must(tool("compile", "gpt2.fbs", "--mesh", "dp=2", "-o", "ranks.plan"))
    must(tool("graph", "bert-tiny", "--layers", 1, "--batch", 3, "--seq", SEQ, "-o", "bert.fbs"))
    must(tool("compile", "bert.fbs", "-o", "bert.plan"))
    must(tool("graph", "encdec-tiny", "--layers", 1, "--seq", SEQ, "--source-seq", SEQ, "-o", "encdec.fbs"))
    must(tool("compile", "encdec.fbs", "-o", "encdec.plan"))
    must(tool("graph", "gpt2", "--layers", 1, "--width", 8, "--heads", 1, "--vocab", 70000, "--seq", SEQ, "-o", "wide.fbs"))
    must(tool("compile", "wide.fbs", "-o", "wide.plan"))


# --- order ---

def orders():
    """Three files of each kind, nearly four epochs, over which steps go on; every seed another order."""
    sequences = draw(random.Random(1), 11)
    for name, data in (("a.bin", plain(of(sequences[:5], [1, 2, 3]))), ("b.bin", llmc(of(sequences[5:6]))),
                       ("c.bin", llmc(of(sequences[6:], range(15)), "I"))):
        pathlib.Path(name).write_bytes(data)
    files = ["a.bin", "b.bin", "c.bin"]
    found = {}
    for seed in 0, 7, 1 << 40:
        pathlib.Path("text").write_bytes(bytes(of(expected(sequences, seed, 40))))
        text = steps(train("gpt2.plan", "--text", "text", "--steps", 20, "--seed", seed))
        found[seed] = steps(train("gpt2.plan", "--tokens", *files, "--steps", 20, "--seed", seed))
        check(found[seed] == text and len(text) == 20, "seed", seed, found[seed][:2], text[:2])
    check(len(set(map(tuple, found.values()))) == 3, "the seed does not matter")
    apart = [word for name in files for word in ("--tokens", name)]
    check(steps(train("gpt2.plan", "--steps", 20, *apart)) == found[0], "an option for each file")
    meshes = [steps(train(plan, "--tokens", *files, "--steps", 9, "--seed", 7)) for plan in ("parts.plan", "ranks.plan")]
    check(meshes[0] == meshes[1] and meshes[0][0].split()[3] == found[7][0].split()[3], "another mesh", meshes[0][:2], meshes[1][:2])
    pathlib.Path("text").write_bytes(bytes(of(sequences * 2)))
    arguments = "gpt2.plan", "--eval", "--steps", 9
    check(steps(train(*arguments, "--tokens", *files)) == steps(train(*arguments, "--text", "text")), "--eval, in order")


def families():
    """A masked model's sequences have no id behind them; with an encoder a source comes before."""
    sequences = draw(random.Random(2), 7)
    pathlib.Path("masked.bin").write_bytes(plain([i for sequence in sequences for i in sequence]))
    pathlib.Path("text").write_bytes(bytes(of(expected(sequences, 3, 15))))
    arguments = "bert.plan", "--steps", 5, "--seed", 3
    check(steps(train(*arguments, "--tokens", "masked.bin")) == steps(train(*arguments, "--text", "text")), "bert")
    sequences = draw(random.Random(3), 7, 2 * SEQ)
    pathlib.Path("pairs.bin").write_bytes(plain(of(sequences)))
    for seed in range(3):
        pathlib.Path("text").write_bytes(bytes(of(expected(sequences, seed, 1))))
        arguments = "encdec.plan", "--steps", 1, "--seed", seed
        check(steps(train(*arguments, "--tokens", "pairs.bin")) == steps(train(*arguments, "--text", "text")), "encdec")


# --- formats ---

def formats():
    ids = of(draw(random.Random(4), 6, vocabulary=70000))
    wide = {"plain": plain(ids, "I"), "llm.c": llmc(ids, "I")}
    small = of(draw(random.Random(5), 6))
    narrow = {"plain": plain(small), "llm.c": llmc(small), "llm.c, wide": llmc(small, "I")}
    for plan, kinds in (("wide.plan", wide), ("gpt2.plan", narrow)):
        found = []
        for data in kinds.values():
            pathlib.Path("x.bin").write_bytes(data)
            found.append(steps(train(plan, "--tokens", "x.bin", "--steps", 3)))
        check(all(lines == found[0] for lines in found), plan, found)
    with open("huge.bin", "wb") as file:
        file.write(plain(small))
        file.truncate(10 << 30)
    done = train("gpt2.plan", "--tokens", "huge.bin", "--steps", 2,
                 preexec_fn=lambda: LIMIT and resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)))
    check(len(steps(done)) == 2, "a file of 10 GB", done.stderr)
    with subprocess.Popen([TOOLS / "remat-run", "gpt2.plan", "--tokens", "huge.bin", "--steps", "10000"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
        process.stdout.readline()
        os.truncate("huge.bin", 100)
        _, message = process.communicate(timeout=120)
    check(process.returncode == IO and re.search(rf"huge.bin: it ends before byte \d+, and had {10 << 30}\n", message), message)
    os.unlink("huge.bin")


def refusals():
    ids = of(draw(random.Random(6), 4))
    beyond = ids.copy()
    beyond[37] = 256
    good = llmc(ids)
    cases = {
        "nothing": (b"", "it has no ids"),
        "odd": (plain(ids) + b"x", "131 bytes are no whole number of ids of 2 bytes"),
        "short": (plain(ids[:16]), "16 ids, and a sequence of the plan has 17"),
        "beyond": (plain(beyond), "id 37 is 256, beyond the model's vocabulary of 256"),
        "beyond, wide": (llmc(ids[:37] + [1 << 31] + ids[38:], "I"), "id 37 is 2147483648, beyond the model's vocabulary of 256"),
        "four bytes": (plain(ids * 4, "I"), "read as uint16, every second id is 0: write uint16 ids, or uint32 ids after llm.c's header"),
        "another kind": (llmc(ids, magic=20240522), r"magic 20240522 is of no token file of llm.c \(accepted: 20240520, 20240801\)"),
        "version": (llmc(ids, version=2), r"version 2 of llm.c's token files with magic 20240520 \(accepted: 1\)"),
        "version, wide": (llmc(ids, "I", version=1), r"version 1 of llm.c's token files with magic 20240801 \(accepted: 7\)"),
        "cut header": (good[:1000], "cut off: 1000 bytes, its header has 1024"),
        "cut": (good[:-1], "its header says 65 ids of 2 bytes, and 129 bytes follow it"),
        "longer": (good + b"xx", "its header says 65 ids of 2 bytes, and 132 bytes follow it"),
        "no ids": (llmc([]), "it has no ids"),
        "negative": (llmc(ids, count=-65), "its header says -65 ids of 2 bytes, and 130 bytes follow it"),
        "many": (llmc(ids, "I", count=(1 << 31) - 1), "its header says 2147483647 ids of 4 bytes, and 260 bytes follow it"),
        "numpy": (b"\x93NUMPY\x01\x00" + plain(ids), r"no token ids: a NumPy array with a header: write its ids with tofile\(\)"),
        "parquet": (b"PAR1" + plain(ids), "no token ids: Parquet"),
    }
    pathlib.Path("good.bin").write_bytes(plain(ids))
    for what, (data, message) in cases.items():
        pathlib.Path("bad.bin").write_bytes(data)
        done = train("gpt2.plan", "--tokens", "good.bin", "bad.bin", "--steps", 4)
        check(done.returncode == INVALID and re.fullmatch(f"remat-run: error: bad.bin: {message}\n", done.stderr) and not done.stdout,
              what, done.returncode, done.stderr)
    done = train("gpt2.plan", "--tokens", "good.bin", "nowhere.bin")
    check(done.returncode == IO and "nowhere.bin: No such file" in done.stderr, done.stderr)
    done = train("gpt2.plan", "--tokens", "good.bin", "--report", "good.bin")
    check(done.returncode == 2 and "--report 'good.bin' is the same file as --tokens 'good.bin'" in done.stderr, done.stderr)
    done = train("gpt2.plan", "--tokens", "good.bin", "--text", "good.bin")
    check(done.returncode == 2 and "--tokens contradicts --text" in done.stderr, done.stderr)
    pathlib.Path("bad.bin").write_bytes(plain(ids + ids + beyond))  # its last sequences are not among the first rows
    seed = next(s for s in range(99) if shuffle(s, 0, 12, 0) < 8 > shuffle(s, 0, 12, 1))
    check(train("gpt2.plan", "--tokens", "bad.bin", "--steps", 1, "--seed", seed).returncode == 0, "what is not read")
    check(train("gpt2.plan", "--tokens", "bad.bin", "--steps", 6, "--seed", seed).stdout == "", "what a later step reads")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        make_plans()
        for part in (orders, families, formats, refusals):
            part()
        os.chdir("/")
    print("\n".join(faults) or "as it should be")
    return len(faults) > 0


sys.exit(main())
