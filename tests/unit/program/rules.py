#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every message of a source is one that a test provokes: a rule without a case fails.

rules.py SOURCE... -- TEST...     (each TEST run with the argument "messages" prints those it gets)
"""
import re
import subprocess
import sys

# Calls that make a message, and which argument is its format.
CALLS = {"remat_verify_error": 4, "remat_error": 2, "REMAT_FAIL": 2, "mismatch": 1}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
SPECIFIER = re.compile(r"%(?:\.\d+)?(?:ll|z)?[a-z]")


def arguments(text):
    """The arguments of a call, from after its opening parenthesis."""
    depth, start, i, found = 0, 0, 0, []
    while depth >= 0:
        if text[i] == '"':
            i = LITERAL.match(text, i).end()
            continue
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and text[i] == ","):
            found.append(text[start:i])
            start = i + 1
        i += 1
    return found


def rules(path):
    """(line, regular expression) of each message."""
    with open(path, encoding="utf-8") as file:
        source = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), file.read(), flags=re.S)
    for call in re.finditer(r"\b(%s)\(" % "|".join(CALLS), source):
        position = CALLS[call[1]]
        found = arguments(source[call.end():])
        literals = LITERAL.findall(found[position]) if position < len(found) else []
        text = bytes("".join(literals), "utf-8").decode("unicode_escape")
        if not literals or text == "%s":
            continue
        pattern = ".*".join(re.escape(part) for part in SPECIFIER.split(text)) + "$"
        if call[1] == "remat_verify_error":
            pattern = re.escape(found[1].strip().strip('"')) + r'\[\d+\](?: ".*")?: ' + pattern
        elif call[1] == "mismatch":
            pattern = ": " + pattern
        yield source.count("\n", 0, call.start()) + 1, pattern


def main():
    split = sys.argv.index("--")
    sources, tests = sys.argv[1:split], sys.argv[split + 1:]
    messages = "".join(subprocess.run([test, "messages"], check=True, stdout=subprocess.PIPE,
                                      encoding="utf-8").stdout for test in tests)
    count = missing = 0
    for path in sources:
        for line, pattern in rules(path):
            count += 1
            if not re.search(pattern, messages, re.M):
                missing += 1
                print(f"{path}:{line}: no case provokes {pattern}")
    print(f"{count} rules, {missing} without a case")
    sys.exit(missing > 0 or count < 100)


main()
