# SPDX-License-Identifier: Apache-2.0
"""Programs with planted faults: a .def file says what to change in sources, and the changed files are compiled and linked
in front of the archives that hold them.

    MUTANT(..., EDIT(file, function, pattern, what takes its place), ...)

A pattern is C, compared token by token, so spaces, line breaks and comments do not matter. It must match once within the
function (in the file, if the function is ""). If it matches nowhere, names may differ: each name of the pattern then
stands for one name of the source, also in what takes its place. So a row outlives a renaming, of the function too.

A run plants all faults, with `--slice N` every third, with `--only TEXT` those whose description has TEXT."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOKEN = re.compile(r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|\\\n)|(?P<name>[A-Za-z_]\w*)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
                   r"""|\d[\w.]*|->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||.""", re.S)
KEYWORDS = set("""break case const continue default do else enum extern for goto if return sizeof static struct switch
                  typedef union void while bool true false NULL""".split())
FIXED = re.compile(r"cu[A-Z]\w*|cublas\w*|nccl\w*|CUDA_\w*")  # NVIDIA's names
SLICES = 3


def may_change(token):
    return token["name"] is not None and token[0] not in KEYWORDS and not FIXED.fullmatch(token[0])


def tokens(text):
    """(text, whether it is a name that may change, begin, end) of each."""
    return [(m[0], may_change(m), *m.span()) for m in TOKEN.finditer(text) if m["blank"] is None]


def function_range(text, name):
    """[begin, end) of a function's definition, None where there is none: its head begins a line, its last brace, too, or ends that
    line. Also of BODY(name), as CUDA text has it."""
    head = re.search(rf"^(?:(?:\w[^;{{}}#\n]*[ *])?{name}\((?:[^;{{}}]*?)\)|\w+\({name}\))\n?\s*\{{", text, re.M) if name else None
    if not head:
        return None
    line_end = text.index("\n", head.end())
    return head.start(), line_end if text[line_end - 1] == "}" else text.index("\n}", head.end()) + 2


def matches(source, pattern, renamed):
    """[begin, end) in characters, and the names that stand for others, of each place."""
    found = []
    for first in range(len(source) - len(pattern) + 1):
        there, back = {}, {}
        for (want, is_name, _, _), (have, have_name, _, _) in zip(pattern, source[first:]):
            if renamed and is_name and have_name:
                if there.setdefault(want, have) != have or back.setdefault(have, want) != want:
                    break
            elif want != have:
                break
        else:
            found.append((source[first][2], source[first + len(pattern) - 1][3], there))
    return found


def place(text, function, pattern):
    """The one place of a pattern, as matches() has it; ValueError where there is none, or two."""
    wanted = tokens(pattern)
    for renamed in False, True:
        begin, end = function_range(text, function) or (0, len(text))
        found = matches(tokens(text[begin:end]), wanted, renamed)
        if found:
            break
    if len(found) != 1:
        raise ValueError(f"{function or 'the file'} has {len(found)} times \"{pattern}\", not once")
    return begin + found[0][0], begin + found[0][1], found[0][2]


def with_names(replacement, names):
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), replacement)


def edited(text, function, pattern, replacement):
    begin, end, names = place(text, function, pattern)
    return text[:begin] + with_names(replacement, names) + text[end:]


def edited_files(root, edits):
    """The text of each file with its edits."""
    texts = {}
    for file, *edit in edits:
        texts[file] = edited(texts[file] if file in texts else (root / file).read_text(), *edit)
    return texts


def read(path, *kinds):
    """The rows of a .def file, whose strings are Python's too: a tuple of arguments each, edits are tuples of four. Where
    there are several kinds of rows, it begins with the kind."""
    rows = []
    text = re.sub(r"^/\*.*?\*/\n", "", path.read_text(), flags=re.S | re.M)
    exec(text, {"MUTANT": lambda *row: rows.append(row), "EDIT": lambda *edit: edit,
                **{kind: lambda *row, kind=kind: rows.append((kind, *row)) for kind in kinds}})
    return rows


def check(root, edits, what):
    """Each edit has its place, also once every name of the file is another."""
    others = {}
    try:
        edited_files(root, edits)
        for file, function, pattern, _ in edits:
            other = others.setdefault(file, TOKEN.sub(lambda m: f"{m[0]}_renamed" if may_change(m) else m[0],
                                                      (root / file).read_text()))
            place(other, f"{function}_renamed" if function else "", pattern)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def choose(root, rows, describe, edits, folder="."):
    """The rows that this run plants, after a check of all. describe(row): what it is, edits(row): its edits,
    of files in this folder of the root."""
    only, number = option("--only"), option("--slice")
    for row in rows:
        check(root / folder, edits(row), describe(row))
    return [row for i, row in enumerate(rows) if (only is None or only in describe(row)) and (number is None or i % SLICES == int(number))]


def plant_all(plant, rows):
    """Calls plant(work folder, index, *row) for all; what these return but None is printed. Returns the exit code."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(lambda row: plant(pathlib.Path(folder), *row), [(i, *row) for i, row in enumerate(rows)])
                  if fault]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(rows)} mutants planted")
    return bool(faults)


class Builder:
    """Arguments of the command line: SOURCES COMPILER LINKER ARCHIVE..."""

    def __init__(self, arguments, included, folder, flags):
        self.root = pathlib.Path(arguments[0])
        self.folder = folder
        self.compiler, self.linker = arguments[1].split(), arguments[2].split()
        self.archives = [str(pathlib.Path(name).resolve()) for name in arguments[3:] if name.endswith(".a")]
        self.flags = [*flags, *(f"-I{folder}" for tree in included
                        for folder in sorted((self.root / tree).glob("**/")) if folder.is_dir())]

    def choose(self, rows, describe, edits):
        return choose(self.root, rows, describe, edits, self.folder)

    def build(self, work, name, edits):
        """The program with these edits."""
        objects = []
        for file, text in edited_files(self.root / self.folder, edits).items():
            source = work / f"{name}_{file.replace('/', '_')}"
            source.write_text(text)
            objects.append(source.with_suffix(".o"))
            subprocess.run([*self.compiler, "-std=c11", "-D_GNU_SOURCE", "-w", *self.flags, "-c", source, "-o", objects[-1]], check=True)
        program = work / f"{name}.program"
        subprocess.run([*self.linker, "-o", program, *objects, "-Wl,--start-group", *self.archives, "-Wl,--end-group", "-ldl", "-pthread",
                        "-lm", "-ljansson"], check=True)
        return program


def run(program, *arguments, limit_s=60):
    """The exit code, and what it says."""
    try:
        done = subprocess.run([program, *arguments], encoding="utf-8", capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return 124, f"no end after {limit_s} s"
    return done.returncode, done.stdout + done.stderr
