# SPDX-License-Identifier: Apache-2.0
"""Rules of names and structure over the product's sources. What breaks one may only become less: a tree may have as
many offences as ceilings.txt says, which is lowered by what a change mends.

    house.py openings    a comment in a header begins with the thing or a verb, not with Of, What, Who, It or That
    house.py words       words that docs/design.md's vocabulary has others for (words.txt)
    house.py types       a type name is defined once in the product
    house.py circles     no circle of files that call each other's functions, of headers, and of units, each a source with
                         the header of its name, that include each other's; a type is used by including its header
    house.py names       files that comments and documents name exist
    house.py spaces BUILD_DIRECTORY   two headers of one name are not in one include space

The test `planted` tries each of them. With -v as the last argument every offence is printed."""
import collections
import json
import os
import pathlib
import re
import sys

import layers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TREES = ("compiler", "runtime", "tools")
SUFFIXES = (".c", ".h", ".cc", ".def", ".cu", ".fbs", ".md")
DOCUMENTS = ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
PYTHON_COMMENT = re.compile(r'""".*?"""|(?<![\'"\w])#[^\n]*', re.S)
LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')


def tree_of(path):
    return path.split("/")[0]


def without_comments(text):
    return COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)


def comments_alone(path, text):
    """The same lines with nothing but the comments."""
    pattern, out, at = PYTHON_COMMENT if path.endswith(".py") else COMMENT, [], 0
    for match in pattern.finditer(text):
        out += ["\n" * text.count("\n", at, match.start()), match[0]]
        at = match.end()
    return "".join(out)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_openings(files):
    """Faults as (tree, text), as for every check."""
    faults = []
    for path, text in files.items():
        for match in COMMENT.finditer(text) if path.endswith(".h") else []:
            word = re.match(r"[/*\s]*(\w+)", match[0])
            if word and word[1] in ("Of", "What", "Who", "It", "That"):
                faults.append((tree_of(path), f"{path}:{line_of(text, match.start())}: begins with {word[1]}"))
    return faults


def read_words():
    """Rows of words.txt: a pattern, what to write instead, and folders in which the word has another meaning."""
    rows = [[cell.strip() for cell in line.split(" | ")]
            for line in (HERE / "words.txt").read_text().splitlines() if line and line[0] != "#"]
    for example, pattern, *_ in rows:
        if not re.search(pattern, example, re.I):
            sys.exit(f"words.txt: {pattern} does not find '{example}'")
    return [(re.compile(row[1], re.I), row[2], tuple(row[3].split()) if len(row) > 3 else ()) for row in rows]


def check_words(files):
    """In tests comments alone, but not those that are about the words."""
    files = {path: comments_alone(path, text) if path.startswith("tests/") else text
             for path, text in files.items() if not path.startswith("tests/style/")}
    faults = []
    for pattern, instead, free in read_words():
        for path, text in files.items():
            if not path.startswith(free) if free else True:
                faults += [(tree_of(path), f"{path}:{line_of(text, match.start())}: '{match[0]}': write {instead}")
                           for match in pattern.finditer(text)]
    return faults


TYPE = re.compile(r"\b(?:struct|union|enum)\s+([a-z]\w*)\s*\{|^typedef\b[^;{}]*?\b([a-z]\w*);|^\}\s*([a-z]\w*);", re.M)
FORWARD = re.compile(r"^typedef\s+(?:struct|union|enum)\s+(\w+)\s+\1;", re.M)


def check_types(files):
    places = collections.defaultdict(set)
    for path, text in files.items():
        code = FORWARD.sub("", re.sub(r"^#\s*define(?:.*\\\n)*.*", "", without_comments(text), flags=re.M))
        for match in TYPE.finditer(code) if path.endswith((".c", ".h")) else []:
            places[match[1] or match[2] or match[3]].add(path)
    # The compiler's, if only the compiler's; else that of the last tree, which is to find another name.
    return [(tree_of(max(paths)), f"{name}: defined in {', '.join(sorted(paths))}")
            for name, paths in sorted(places.items()) if len(paths) > 1]


DEFINITION = re.compile(r"^(?!static)[A-Za-z_][^;{}=#]*?\b([a-z]\w*)\([^;{}]*\)\n\{", re.M)


def unit_of(path):
    """A source and the header of its name."""
    return path.rsplit(".", 1)[0]


def circles_of(graph):
    """The strongly connected components of more than one node (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            found.extend([sorted(circle)] if len(circle) > 1 else [])

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def faults_of(graph, what):
    """Of each circle the pairs in it, or if it has none the whole."""
    faults = []
    for circle in circles_of(graph):
        pairs = [(a, b) for a in circle for b in sorted(graph.get(a, ())) if a < b and a in graph.get(b, ())]
        faults += [(tree_of(members[0]), f"{what}: {' <-> '.join(members)}") for members in pairs or [circle]]
    return faults


def check_circles(files):
    code = {path: LITERAL.sub("", without_comments(text)) for path, text in files.items()}
    includes, owners, declared = {}, collections.defaultdict(set), collections.defaultdict(set)
    for path, text in files.items():
        includes[path] = []
        for name in layers.INCLUDE.findall(text):
            header = layers.resolve(name, path, files)
            includes[path] += [header] if header in files else []
        for match in DEFINITION.finditer(code[path]) if path.endswith(".c") else []:
            owners[match[1]].add(unit_of(path))
        if path.endswith(".h"):
            declared[path] = set(re.findall(r"\b([a-z]\w*)\(", code[path]))
    calls, headers, units = (collections.defaultdict(set) for _ in range(3))
    for path in files:
        units[unit_of(path)] |= {unit_of(header) for header in includes[path]} - {unit_of(path)}
        known = set().union(*(declared[header] for header in layers.reach(path, includes))) - declared.get(path, set())
        for word in known & set(re.findall(r"(?<![.>\w])[a-z]\w*\b", code[path])):
            calls[unit_of(path)] |= owners[word] - {unit_of(path)} if len(owners[word]) == 1 else set()
        if path.endswith(".h"):
            headers[path] |= set(includes[path]) - {path}
    return faults_of(calls, "calls") + faults_of(headers, "headers") + faults_of(units, "includes")


NAMED = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*\w+\.(?:c|h|def|cu|fbs|py)\b")


def check_names(files):
    """In documents those with a folder of the project, as they name files of users and of other projects too. One in
    capitals stands for any."""
    others = {"tables.def", "records.def", "mpi.h", "nccl.h", "cuda.h", "cublasLt.h", "llm.c", "model.fbs",
              "compiler/codegen/flip.cu"}  # made by the build; libraries' and users'; the example of adding_an_op.md
    paths = [str(path.relative_to(ROOT)) for tree in TREES + ("schemas", "tests", "docs")
             for path in (ROOT / tree).rglob("*") if path.is_file()]
    folders = {part for path in paths for part in path.split("/")[:-1]}
    ends = {path.split("/", k)[-1] for path in paths for k in range(path.count("/") + 1)}
    faults = []
    for path, text in files.items():
        comments = [(0, text)] if path.endswith(".md") else [(match.start(), match[0]) for match in COMMENT.finditer(text)]
        for begin, comment in comments:
            for match in NAMED.finditer(comment):
                own = not path.endswith(".md") or "/" in match[0] and match[0].split("/")[0] in folders
                if own and match[0] not in ends | others and not re.match(r"[A-Z]+\.", match[0].split("/")[-1]):
                    faults.append((tree_of(path), f"{path}:{line_of(text, begin + match.start())}: no file {match[0]}"))
    return faults


def check_spaces(spaces):
    """Of each list of folders, which one compilation is given, the headers that two of them have."""
    faults = set()
    for folders in spaces:
        where = collections.defaultdict(set)
        for folder, names in folders.items():
            for name in names:
                where[name].add(folder)
        faults |= {(tree_of(max(found)), f"{name}: in one include space with itself: {', '.join(sorted(found))}")
                   for name, found in where.items() if len(found) > 1}
    return sorted(faults)


def read_spaces(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    spaces, product = {}, tuple(str(ROOT / tree) + os.sep for tree in TREES)
    for command in commands:
        source = os.path.normpath(os.path.join(command["directory"], command["file"]))
        folders = [os.path.normpath(os.path.join(command["directory"], folder))
                   for folder in re.findall(r"-I(\S+)", command["command"])] + [os.path.dirname(source)]
        if source.startswith(product):
            folders = tuple(sorted({folder for folder in folders if (folder + os.sep).startswith(product)}))
            spaces[folders] = {os.path.relpath(folder, ROOT): [name for name in os.listdir(folder)
                                                               if name.endswith((".h", ".def"))]
                               for folder in folders if os.path.isdir(folder)}
    return list(spaces.values())


def read_files(trees, suffixes):
    """Of folders, and of single files. ValueError: one of them has none."""
    found = {}
    for tree in trees:
        files = [path for path in (ROOT / tree, *sorted((ROOT / tree).rglob("*"))) if path.suffix in suffixes and path.is_file()]
        if not files and (ROOT / tree).suffix in suffixes:
            raise ValueError(f"no file {tree}")
        found |= {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    return found


def main():
    name = sys.argv[1]
    check = globals()["check_" + name]
    if name == "spaces":
        faults = check(read_spaces(sys.argv[2]))
    elif name == "words":
        faults = check({**read_files(TREES + ("schemas",) + DOCUMENTS, (*SUFFIXES, ".py")),
                        **read_files(("tests",), (".c", ".h", ".def", ".py"))})
    elif name == "names":
        faults = check(read_files(TREES + ("schemas",) + DOCUMENTS, SUFFIXES))
    else:
        faults = check(read_files(TREES, (".c", ".h", ".def")))
    counts = collections.Counter(tree for tree, _ in faults)
    ceilings = {(row[0], row[1]): int(row[2])
                for row in map(str.split, (HERE / "ceilings.txt").read_text().splitlines()) if row and row[0] != "#"}
    above = [tree for tree in sorted(counts) if counts[tree] > ceilings.get((name, tree), 0)]
    below = [f"{name}: {tree} has {counts[tree]}: lower its row of ceilings.txt, {count}"
             for (rule, tree), count in ceilings.items() if rule == name and counts[tree] < count]
    for tree, fault in faults:
        if tree in above or "-v" in sys.argv:
            print(fault)
    for tree in sorted(counts):
        print(f"{name}: {counts[tree]} in {tree}, of {ceilings.get((name, tree), 0)} that are allowed")
    print(name.capitalize(), len(faults), *below, sep="\n")
    return 1 if above or below else 0


if __name__ == "__main__":
    sys.exit(main())
