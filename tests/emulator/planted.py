# SPDX-License-Identifier: Apache-2.0
"""Rows of a .def file with faults in CUDA text, for C: each becomes MUTANT(..., what it is, text, what takes its place).

    planted.py OUTPUT ROWS.def CODEGEN_FOLDER

    EDIT(file of compiler/codegen, function, pattern, what takes its place)       mutants.py; the text occurs once
    WRITTEN(file of compiler/codegen, function, pattern, what takes its place)    of what a C function writes for each kernel: the
        pattern matches once among its strings, token by token, a value where a string has a directive such as %u; as in
        mutants.py, names may differ from those of the source. It is planted wherever a kernel has it, whatever the blanks"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import mutants

BODY = re.compile(r"^BODY\(\w+\)\n\{\n.*?^\}\n", re.M | re.S)  # which only its own kernel has
ROW = re.compile(r"^MUTANT\((.*), (EDIT|WRITTEN)(\(.*\))\)$", re.M)
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
DIRECTIVE = re.compile(r"%(?:ll[du]|[dsu])")
EXACT = {}  # no name differs
TOKEN = re.compile(rf"(?P<value>\w*(?:{DIRECTIVE.pattern}\w*)+)|{mutants.TOKEN.pattern}", re.S)


def unique(whole, text, begin, end):
    """[begin, end) of text, by whole lines more on both sides until it occurs once in all that a kernel has."""
    while whole.count(text[begin:end]) > 1:
        begin, end = text.rfind("\n", 0, max(begin - 1, 0)) + 1, text.index("\n", end) + 1
    return begin, end


def resolve(texts, folder, file, function, pattern, replacement):
    mutants.check(folder, [(file, function, pattern, replacement)], f"{file}, {function}")
    text = texts[file]
    at, to, names = mutants.place(text, function, pattern)
    begin, end = unique(text + "".join(BODY.sub("", other) for name, other in texts.items() if name != file), text, at, to)
    return text[begin:end], text[begin:at] + mutants.with_names(replacement, names) + text[to:end]


def written(text, function):
    """What the function writes, in tokens: text, or an expression where it has directives; whether it is a name that may change."""
    begin, end = mutants.function_range(text, function)
    strings, last = "", begin
    for string in STRING.finditer(text, begin, end):
        strings += "\n" * bool(text[last:string.start()].strip()) + json.loads(string[0])
        last = string.end()
    return [(re.compile(DIRECTIVE.sub(lambda m: ".*" if m[0] == "%s" else "[0-9]+", token[0])), False) if token["value"]
            else (token[0].replace("\0", "%"), mutants.may_change(token))
            for token in TOKEN.finditer(strings.replace("%%", "\0")) if token["blank"] is None]


def match(wanted, source, names):
    """What names of the pattern stand for, if its tokens are where the source begins; None: they are not. It may end within a
    token, before a directive, and neither begins nor ends with what a "%s" stands for."""
    if not wanted or not source:
        return None if wanted else names
    (want, is_name, _, _), (have, may_change) = wanted[0], source[0]
    if isinstance(have, re.Pattern):
        if len(wanted) == 1 and re.match(r"\w*", have.pattern)[0] == want:
            return names
        longest = len(wanted) - have.pattern.endswith(".*")
        found = (match(wanted[count:], source[1:], names) for count in range(1, longest + 1)
                 if have.fullmatch("".join(text for text, *_ in wanted[:count])))
        return next((there for there in found if there is not None), None)
    if names is not EXACT and is_name and may_change:
        if names.get(want, have) != have or have in (other for name, other in names.items() if name != want):
            return None
        return match(wanted[1:], source[1:], {**names, want: have})
    return match(wanted[1:], source[1:], names) if want == have else None


def matches(source, pattern):
    """match() of each place."""
    for names in EXACT, {}:
        found = [there for at, (have, _) in enumerate(source) if not getattr(have, "pattern", "").startswith(".*")
                 and (there := match(mutants.tokens(pattern), source[at:], names)) is not None]
        if found:
            break
    return found


def resolve_written(texts, folder, file, function, pattern, replacement):
    source = written((folder / file).read_text(), function)
    renamed = [(f"{have}_renamed" if may_change else have, may_change) for have, may_change in source]
    found = matches(source, pattern)
    for count in len(found), len(matches(renamed, pattern)):
        if count != 1:
            raise ValueError(f"{file}, {function} writes {count} times \"{pattern}\", not once")
    return mutants.with_names(pattern, found[0]), mutants.with_names(replacement, found[0])


def main():
    output, rows, folder = map(pathlib.Path, sys.argv[1:])
    texts = {path.name: path.read_text() for path in folder.glob("*.cu")}

    def planted(row):
        find, replacement = {"EDIT": resolve, "WRITTEN": resolve_written}[row[2]](texts, folder, *eval(row[3]))
        return f"MUTANT({row[1]}, {json.dumps(find)}, {json.dumps(replacement)})"

    text = rows.read_text()
    assert len(ROW.findall(text)) == len(re.findall("^MUTANT", text, re.M)), rows
    output.write_text(ROW.sub(planted, text))


main()
