"""What the scripts share that write tables into docs/benchmarks.md."""
import os
import sys

DOES_NOT_FIT = 3  # exit code of remat-compile


def publish(script, text, path=None):
    """Prints the text, or writes it between the script's marks in the file `path`."""
    if not path:
        print(text)
        return
    begin, end = (f"<!-- {os.path.basename(script)} {what} -->" for what in ("begins", "ends"))
    with open(path, encoding="utf-8") as file:
        old = file.read()
    if old.count(begin) != 1 or old.count(end) != 1:
        sys.exit(f"{path}: the marks {begin} and {end} are not there once each")
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(f"{old[:old.index(begin)]}{begin}\n\n{text}\n\n{old[old.index(end):]}")
    os.replace(path + ".tmp", path)
