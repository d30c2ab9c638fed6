# SPDX-License-Identifier: Apache-2.0
"""README.md's example of a model of transformers under a policy of remat: its commands are run as they stand there.
The losses with and without the policy are the same, and the megabytes are README's, within 2 %.

    hugging_face.py BUILD_DIRECTORY

Exit code 0: all of that, 77: PyTorch or transformers is absent (1 when CI=true)."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r"^(as it is|with the policy) +losses ([\d. ]+), peak (\d+) MB$", re.M)


def main():
    if not all(map(importlib.util.find_spec, ("torch", "transformers"))):
        print("SKIP: PyTorch or transformers is absent")
        return 1 if os.environ.get("CI") == "true" else 77
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = readme.index("$ remat-graph docs/examples/llama-small.json")
    shown = readme[begin:readme.index("```", readme.index("peak", begin))]
    tools = pathlib.Path(sys.argv[1]).resolve() / "tools"
    python = pathlib.Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as work:
        env = dict(os.environ, PATH=f"{tools}:{python}:{os.environ['PATH']}",
                   OMP_NUM_THREADS="1")  # more threads would wait in loops
        os.symlink(ROOT / "docs", f"{work}/docs")
        printed = "".join(subprocess.run(["bash", "-c", line[2:]], cwd=work, env=env, check=True, encoding="utf-8",
                                         stdout=subprocess.PIPE).stdout
                          for line in shown.splitlines() if line.startswith("$ "))
    print(printed)
    expected, observed = LINE.findall(shown), LINE.findall(printed)
    assert [row[0] for row in observed] == [row[0] for row in expected] == ["as it is", "with the policy"], observed
    assert observed[0][1] == observed[1][1], observed
    for row, (_, _, megabytes) in zip(observed, expected):
        assert abs(int(row[2]) / int(megabytes) - 1) <= 0.02, (row, megabytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
