# SPDX-License-Identifier: Apache-2.0
"""The report, without a browser: its data are those of --format json, view by view; it names no other place, whatever
the names in a graph, and a plan of 96 layers stays small. In a browser: report_browser.py.

    report.py TOOLS"""
import json
import os
import re
import sys
import tempfile

from report_page import HOSTILE, LARGEST, PLANS, VIEWS, data_of, make_plans, unpacked, without_nulls


def check_data(call, name, page):
    data = data_of(page)
    said_by = lambda *options: json.loads(call("dump", f"{name}.plan", *options, "--format", "json"))
    assert {"schema": "remat-plan/1", **data["summary"]} == said_by()
    tables = data["tables"]
    for view, options in VIEWS.items():
        said = said_by(*options)
        del said["schema"]
        found = unpacked(tables[view], tables["texts"])
        assert without_nulls(found) == without_nulls(said), (name, view)
    assert tables.keys() == {*VIEWS, "step", "texts"}, tables.keys()
    line = next(iter(re.findall(r"^certificate (.*)", call("dump", f"{name}.plan"), re.M)), "")
    assert data["certificate"] == line, (data["certificate"], line)


def check_text(name, page):
    """Nothing but the data depends on the plan, and nothing is fetched."""
    assert len(page) < LARGEST, (name, len(page))
    assert page.isascii(), name
    assert page.count("<script") == page.count("</script>") == 2, name
    template = page.replace(re.search(r'id="plan">(.*?)</script>', page, re.S)[1], "")
    for word in ("://", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("):
        assert word not in template, (name, word)
    assert "default-src 'none'" in template
    return template


def main():
    tools = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    call = make_plans(tools)
    templates = set()
    for name in [*PLANS, "hostile"]:
        with open(f"{name}.html", encoding="ascii") as file:
            page = file.read()
        templates.add(check_text(name, page))
        check_data(call, name, page)
    assert len(templates) == 1
    assert HOSTILE in data_of(page)["tables"]["texts"]
    assert data_of(page)["summary"]["graph"] == HOSTILE
    assert call("dump", "tiny.plan", "--format", "html") == open("tiny.html", encoding="ascii").read()


main()
