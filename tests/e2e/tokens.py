# SPDX-License-Identifier: Apache-2.0
"""remat-run --tokens: every format gives its ids, in the order that a Python version of the shuffle says, on every mesh;
files that are none are refused, each with its message.

    tokens.py TOOLS_DIRECTORY LIMIT

What a step reads is seen by its hashes: a text whose bytes are the ids in the expected order gives the same. For that every
sequence begins with the same id, which is then the last target of any. LIMIT: of the address space of a run, 0: none."""
import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import random
import re
import resource
import sqlite3
import struct
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INVALID, IO, TEXT, Tools, check, finish, must, refused, scratch

tool = Tools(sys.argv[1], timeout=120)
LIMIT = int(sys.argv[2])
SEQ, FIRST = 16, 10  # ids of a sequence, and the one that begins it
MASK = (1 << 64) - 1


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
    tool.must("graph", "gpt2-tiny", "--layers", 1, "--batch", 2, "--seq", SEQ, "--dropout", 0.1, "-o", "gpt2.fbs")
    tool.must("compile", "gpt2.fbs", "-o", "gpt2.plan")
    tool.must("compile", "gpt2.fbs", "--microbatches", 2, "-o", "parts.plan")
    tool.must("compile", "gpt2.fbs", "--mesh", "dp=2", "-o", "ranks.plan")
    tool.must("graph", "bert-tiny", "--layers", 1, "--batch", 3, "--seq", SEQ, "-o", "bert.fbs")
    tool.must("compile", "bert.fbs", "-o", "bert.plan")
    tool.must("graph", "encdec-tiny", "--layers", 1, "--seq", SEQ, "--source-seq", SEQ, "-o", "encdec.fbs")
    tool.must("compile", "encdec.fbs", "-o", "encdec.plan")
    tool.must("graph", "gpt2", "--layers", 1, "--width", 8, "--heads", 1, "--vocab", 70000, "--seq", SEQ, "-o", "wide.fbs")
    tool.must("compile", "wide.fbs", "-o", "wide.plan")
    tool.must("graph", "gpt2", "--layers", 1, "--width", 8, "--heads", 1, "--vocab", 65536, "--seq", SEQ, "-o", "whole.fbs")
    tool.must("compile", "whole.fbs", "-o", "whole.plan")


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
    """A masked model's sequences have no id after them; with an encoder a source comes before."""
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
    with tool.start("run", "gpt2.plan", "--tokens", "huge.bin", "--steps", 10000) as process:
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
        "four bytes": (plain(ids * 4, "I"), "read as uint16, every second id from id 0 on is 0: write uint16 ids, or uint32 ids after llm.c's header"),
        "another kind": (llmc(ids, magic=20240522), r"magic 20240522 is of no token file of llm.c \(accepted: 20240520, 20240801\)"),
        "version": (llmc(ids, version=2), r"version 2 of llm.c's token files with magic 20240520 \(accepted: 1\)"),
        "version, wide": (llmc(ids, "I", version=1), r"version 1 of llm.c's token files with magic 20240801 \(accepted: 7\)"),
        "cut header": (good[:1000], "cut off: 1000 bytes, its header has 1024"),
        "cut": (good[:-1], "its header says 65 ids of 2 bytes, and 129 bytes follow it"),
        "longer": (good + b"xx", "its header says 65 ids of 2 bytes, and 132 bytes follow it"),
        "no ids": (llmc([]), "it has no ids"),
        "negative": (llmc(ids, count=-65), "its header says -65 ids of 2 bytes, and 130 bytes follow it"),
        "many": (llmc(ids, "I", count=(1 << 31) - 1), "its header says 2147483647 ids of 4 bytes, and 260 bytes follow it"),
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
    count, sequence = 640, 240  # a sequence in none of the three places that are always looked at
    beyond = (ids[:SEQ] * count)[:count * SEQ] + [FIRST]
    beyond[sequence * SEQ + 3] = 256
    pathlib.Path("bad.bin").write_bytes(plain(beyond))
    order = {shuffle(0, 0, count, row): row for row in range(count)}
    before = (order[sequence] // 2)  # steps of two rows before the one that reads it
    check(before > 0 and train("gpt2.plan", "--tokens", "bad.bin", "--steps", 1).returncode == 0, "what is not read")
    check(train("gpt2.plan", "--tokens", "bad.bin", "--steps", before + 1).stdout == "", "what a later step reads")


# --- files of other formats ---

def packed(name):
    """As the module of that name writes them."""
    text = b"In the beginning God created the heaven and the earth. " * 40
    file = io.BytesIO()
    if name == "tar":
        with tarfile.open(fileobj=file, mode="w") as archive:
            member = tarfile.TarInfo("x")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    if name == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x.npy", text)
    if name == "sqlite":
        database = sqlite3.connect("x.db")
        database.execute("create table x (y)")
        database.commit()
        database.close()
        return pathlib.Path("x.db").read_bytes()
    return file.getvalue()


def kinds():
    """Each under the vocabulary of all 2^16 ids, which lacks none."""
    generator = random.Random(7)
    noise = generator.randbytes(20000)
    genesis = TEXT.read_text()
    formats = {
        "gzip": gzip.compress(noise), "bzip2": bz2.compress(noise), "xz": lzma.compress(noise), "zstd": b"\x28\xb5\x2f\xfd\xa4" + noise,
        "LZ4": b"\x04\x22\x4d\x18\x64\x40" + noise, "tar": packed("tar"), "a zip archive": packed("zip"),
        "a Python pickle": pickle.dumps(list(range(3000)), 4),
        "a NumPy array": b"\x93NUMPY\x01\x00v\x00{'descr': '<u2', }" + noise, "Parquet": b"PAR1\x15\x04\x15" + noise,
        "Arrow": b"ARROW1\0\0" + noise, "an Arrow stream": b"\xff\xff\xff\xff\x70\x03\0\0\x10\0\0\0\0\0\n\0" + noise,
        "safetensors": struct.pack("<Q", 60) + b'{"a":{"dtype":"U16","shape":[10000],"data_offsets":[0,20000]}' + noise,
        "an index of Megatron-LM": b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8) + noise,
        "LitGPT's packed data": b"LITPKDS" + struct.pack("<QBQ", 1, 8, 20000) + noise,
        "HDF5": b"\x89HDF\r\n\x1a\n" + noise, "SQLite": packed("sqlite"), "LMDB": bytes(16) + b"\xde\xc0\xef\xbe\1\0\0\0" + noise,
        "GGUF": b"GGUF\3\0\0\0" + noise, "a plan of remat": pathlib.Path("gpt2.plan").read_bytes(),
        "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"}
    ids = [generator.randrange(32000) for _ in range(5000)]
    texts = {
        "English": genesis[:30000], "short": genesis[:200], "Windows lines": genesis[:9000].replace("\n", "\r\n"),
        "Cyrillic": "\u0412 \u043d\u0430\u0447\u0430\u043b\u0435 \u0441\u043e\u0442\u0432\u043e\u0440\u0438\u043b " * 99,
        "JSONL": "".join(json.dumps({"text": line}) + "\n" for line in genesis[:20000].splitlines()),
        "CSV": "".join(f"{n},{line.split()[0]},{n % 7}\n" for n, line in enumerate(genesis[:30000].splitlines()) if line.split())}
    many = struct.pack("<5000i", *ids)
    wider = {
        "int32": many, "int32 behind a header": b"DATASET2" + noise[:5000] + many, "behind 7 bytes": b"HEADERx" + many + b"x",
        "behind 10 bytes": b"HEADER1234" + many, "int64": struct.pack("<5000q", *ids), "big-endian int32": struct.pack(">5000i", *ids)}
    cases = [(name, data, f"no token ids: {re.escape(name)}.*: .+") for name, data in formats.items()]
    for name, text in texts.items():
        for data in text.encode(), text.encode() + b"x":
            cases.append((name, data, "no token ids: a text: --text trains on its bytes; .*"))
    cases.append(("Latin-1", ("Am Anfang schuf Gott Himmel und Erde. \xfc\xf6 " * 40).encode("latin-1"), "no token ids: a text: .*"))
    for name, text in (("numbers", " ".join(map(str, ids))), ("a list", json.dumps(ids, indent=1)),
                       ("a line", ",".join(map(str, ids)))):
        cases.append((name, text.encode(), r"no token ids: numbers in a text: write them as uint16, with NumPy's tofile\(\)"))
    for name, data in wider.items():
        cases.append((name, data, r"read as uint16, every second id from id \d+ on is 0: write uint16 ids, .*"))
    for name, data, message in cases:
        refuse("whole.plan", name, data, message)
    refuse("wide.plan", "int64", struct.pack("<5000q", *ids), "read as uint32, every second id from id 0 on is 0: write uint32 ids")
    refuse("wide.plan", "uint16", struct.pack("<5000H", *ids), r"id 0 is \d+, beyond the model's vocabulary of 70000, which is read as uint32")
    for at in 5, 4990 // 2, 4995:  # one step reads 17 of 5000 ids
        beyond = [i % 256 for i in ids]
        beyond[at] = 300
        refuse("gpt2.plan", f"id {at}", plain(beyond), f"id {at} is 300, beyond the model's vocabulary of 256")


def refuse(plan, name, data, message):
    pathlib.Path("x.bin").write_bytes(data)
    done = train(plan, "--tokens", "x.bin", "--steps", 1)
    refused(done, INVALID, re.compile(f"x.bin: {message}"), plan, name)
    check(not done.stdout, plan, name, "a step")


def accepted():
    """Ids that look odd and are good: few, with runs of zeros or of one id, letters in UTF-16, and even draws."""
    generator = random.Random(8)
    letters = [ord(c) for c in "In the beginning God created the heaven and the earth. " * 40]
    many = [[generator.randrange(vocabulary) for _ in range(4000)] for vocabulary in (2, 256, 32000, 65536) for _ in range(3)]
    cases = many + [letters, [0] * 3000, many[-1] + [0] * 5000, [0] * 5000 + many[-1], [many[-1][0]] + [0] * 100, [50256] * 3000, [0x2041] * 3000,
                    [0, *range(1, 60)] + [0] * 2000 + [5, 0] * 30, [ord(c) for c in "\u8d77\u521d\u795e\u521b\u9020\u5929\u5730" * 50]]
    for ids in cases:
        pathlib.Path("x.bin").write_bytes(plain(ids))
        done = train("whole.plan", "--tokens", "x.bin", "--steps", 1)
        check(done.returncode == 0, "good ids:", ids[:5], done.stderr)


@scratch()
def main():
    make_plans()
    for part in (orders, families, formats, refusals, kinds, accepted):
        part()
    finish()


main()
