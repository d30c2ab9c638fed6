# SPDX-License-Identifier: Apache-2.0
"""Generated tables. A script's tables are the file tables/NAME.md beside docs/benchmarks.md, and its summary stands
between marks in docs/benchmarks.md. The summary is made from the text of the tables alone."""
import collections
import os
import subprocess
import sys

DOES_NOT_FIT = 3  # exit code of remat-compile
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

Table = collections.namedtuple("Table", "title caption head rows")  # a row is a list of cells


def cells(line):
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def read(text):
    """The Markdown tables of a text, each with its nearest title and the paragraph before it."""
    tables, title, caption, inside = [], "", "", False
    for line in text.splitlines():
        if line.startswith("|"):
            if not inside:
                tables.append(Table(title, caption, cells(line), []))
            elif not line.startswith("| ---"):
                tables[-1].rows.append(cells(line))
        elif line.startswith("#"):
            title, caption = line.lstrip("# "), ""
        elif line:
            caption = line
        inside = line.startswith("|")
    return tables


def markdown(head, rows):
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def first_line(text):
    return text[:text.index("\n")]


def commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, encoding="utf-8")
    return done.stdout.strip() or "unknown"


def marks(script):
    return [f"<!-- {os.path.basename(script)} {word} -->" for word in ("begins", "ends")]


def between(document, script):
    """The text before, between and after the script's marks."""
    begin, end = marks(script)
    if document.count(begin) != 1 or document.count(end) != 1:
        sys.exit(f"the marks {begin} and {end} are not in the document once each")
    first, last = document.index(begin) + len(begin), document.index(end)
    return document[:first], document[first:last], document[last:]


def replace(path, text):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


def table_path(document, name):
    return os.path.join(os.path.dirname(document), "tables", name + ".md")


def publish(script, name, title, text, summary, document=None):
    """Prints the tables, or writes them to tables/NAME.md beside the document and their summary into it."""
    if not document:
        print(text)
        return
    with open(document, encoding="utf-8") as file:
        before, _, after = between(file.read(), script)
    os.makedirs(os.path.dirname(table_path(document, name)), exist_ok=True)
    replace(table_path(document, name),
            f"# {title}\n\nWritten by `tests/bench/{os.path.basename(script)}`.\n\n{text}\n")
    replace(document, f"{before}\n\n{summary(text)}\n\n{after}")


def published(document, name):
    """The text that publish() wrote to tables/NAME.md."""
    with open(table_path(document, name), encoding="utf-8") as file:
        return file.read().split("\n\n", 2)[2].rstrip("\n")
