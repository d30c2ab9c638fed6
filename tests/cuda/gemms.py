# SPDX-License-Identifier: Apache-2.0
"""The table of matrix products beside a plan: made on the first run, followed by later ones whatever
the library would choose now, kept when other GPUs and versions add to it and not followed by these, refused when it is something else.
Algorithms are chosen within the workspace of the plan.

    gemms.py TOOLS LIBRARIES COMPILER"""
import json

from doubles import check, finish, folder, graph, hashes, must, pathlib, plan, train

DEVICE = pathlib.Path(__file__).resolve().parents[2] / "schemas/devices/h200.json"
MIB = 1 << 20


def check_workspace(work, workspace_bytes):
    """Of a device whose description has another than the rest and than a plan without one."""
    device = json.loads(DEVICE.read_text())
    device["cuda"]["workspace_bytes"] = workspace_bytes
    (pathlib.Path(work) / "device.json").write_text(json.dumps(device))
    name = f"{workspace_bytes}.plan"
    plan(work, name, "--target", "device.json")
    must(train(work, name, "cuda", "--steps", 1))
    rows = json.loads((pathlib.Path(work) / f"{name}.gemm.json").read_text())["rows"]
    # The fourth word: see below.
    told = {(row["workspace_bytes"], int(row["algorithm"][48:64], 16)) for row in rows}
    check(told == {(workspace_bytes, workspace_bytes)}, f"workspace {workspace_bytes}: the heuristic was told {told}")


with folder() as work:
    graph(work, "gpt2-tiny", "--layers", "1", "--batch", "2", "--seq", "16", "--attention", "written-out")
    plan(work, "model.plan")
    table = pathlib.Path(work) / "model.plan.gemm.json"

    def run(**environment):
        return train(work, "model.plan", "cuda", "--steps", 1, "--json", **environment)

    first = hashes(run())
    made = table.read_text()
    rows = json.loads(made)["rows"]
    check(rows and all(row.keys() == {"device", "cublaslt", "workspace_bytes", "gemm", "algorithm"}
                       for row in rows), f"rows {rows}")
    check(len({row["gemm"] for row in rows}) == len(rows), "a product has two rows")
    # The fourth word is cublaslt.c's: its algorithm takes all the workspace that the heuristic was told of.
    check(all(int(row["algorithm"][48:64], 16) == row["workspace_bytes"] for row in rows),
          f"the heuristic was told of another workspace: {rows}")
    check(hashes(run(REMAT_DOUBLE_SPLITS=2)) == first, "the table was not followed")
    check(table.read_text() == made, "the table changed without need")

    for workspace_bytes in [MIB, 64 * MIB]:
        check_workspace(work, workspace_bytes)

    table.unlink()
    check(hashes(run(REMAT_DOUBLE_SPLITS=2)) != first, "another algorithm has the same bits: nothing is tested")
    table.write_text(made)
    check(hashes(run(REMAT_DOUBLE_CAPABILITY=100)) == first, "another GPU, same algorithm: other bits")
    both = json.loads(table.read_text())["rows"]
    check(both[:len(rows)] == rows and len(both) == 2 * len(rows), "rows of two GPUs are not both there")
    check(hashes(run(REMAT_DOUBLE_CUBLASLT=130200, REMAT_DOUBLE_SPLITS=2)) != first, "another version's row was followed")
    three = json.loads(table.read_text())["rows"]
    check(three[:len(both)] == both and [row["cublaslt"] for row in three[len(both):]] == [130200] * len(rows),
          "rows of two versions are not both there")
    check(hashes(run(REMAT_DOUBLE_SPLITS=2)) == first, "this version's row was not followed")
    table.write_text(made)

    # An algorithm that the library does not take any more is chosen anew, and said.
    table.write_text(made.replace(rows[0]["algorithm"], "f" * 128))
    again = run()
    check(hashes(again) == first, "a refused algorithm: other bits")
    check("cuBLASLt refuses the algorithm" in again.stderr, again.stderr)
    check(table.read_text() == made, "a refused algorithm stays in the table")

    # So is one that needs more workspace than there is, the last of the four words that cublaslt.c uses, and one
    # whose state says that it is none, of no parts, the second.
    needs = rows[0]["algorithm"]
    for wrong in [f"{needs[:48]}{rows[0]['workspace_bytes'] + 1:016x}{needs[64:]}", f"{needs[:16]}{0:016x}{needs[32:]}"]:
        table.write_text(made.replace(needs, wrong))
        again = run()
        check(hashes(again) == first, f"{wrong}: other bits")
        check("cuBLASLt refuses the algorithm" in again.stderr, f"{wrong}: {again.stderr}")

    # Damage of rows: cut, twice.
    cut, first_row = made.replace(needs, needs[:-1], 1), made.splitlines()[1]
    twice = made.replace(first_row, first_row.rstrip(",") + ",\n" + first_row)
    for wrong in ["hello\n", "", made[:-4], "\x1b[31m\x9b\n", made + "more\n", cut, twice]:
        table.write_text(wrong)
        done = run()
        check("\x1b" not in done.stderr and "\x9b" not in done.stderr, f"{done.stderr!r}: not shown")
        check(done.returncode == 4 and "model.plan.gemm.json" in done.stderr, f"{wrong[:20]!r}: {done.stderr}")
        check(table.read_text() == wrong, "what is no table was written over")
finish()
