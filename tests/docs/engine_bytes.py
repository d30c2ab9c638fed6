# SPDX-License-Identifier: Apache-2.0
"""The memory of NCCL in docs/cost_model.md and docs/ranks.md: what the measurement leaves for each peer beside the measured
reserve, in the descriptions that cite it.

    engine_bytes.py ROOT"""
import json
import pathlib
import re
import sys

GB = 1e9


def find(path, pattern):
    found = re.search(pattern, " ".join(path.read_text(encoding="utf-8").split()))
    assert found, (path, pattern)
    return list(map(float, found.groups()))


def main():
    root = pathlib.Path(sys.argv[1])
    ranks, in_use, each, peers, reserve = find(
        root / "docs/cost_model.md", r"On (\d+) H100s an all-to-all left (\S+) GB in use, context included \(NVIDIA/nccl issue 1685\): "
        r"(\S+) GB for each of (\d+) peers beside the (\S+) GB that one rank took")
    measured, = find(root / "docs/tables/gpu.md", r"Beside the arena (\d+) bytes are reserved")
    total, count = find(root / "docs/ranks.md", r"A plan's reserve has room for it by .*?, (\S+) GB for (\d+) ranks on H100s")
    assert peers == ranks - 1 == count - 1 and reserve == round(measured / GB, 3), (peers, ranks, count, reserve, measured)
    assert each == round((in_use - reserve) / peers, 3), (each, in_use, reserve)
    devices = {path.stem: json.loads(path.read_text()) for path in (root / "schemas/devices").glob("*.json")}
    described = {name: device for name, device in devices.items()
                 if re.search(r"peer_bytes (from NVIDIA/nccl issue 1685|as of an H100)", str(device.get("source")))}
    assert {"h100-sxm", "h200", "a100-80"} <= set(described), set(described)
    assert devices["h100-sxm"]["reserve_bytes"] == measured, measured
    for name, device in described.items():
        assert device["links"]["within_peer_bytes"] == round(each * GB), (name, device["links"], each)
    assert total == round(peers * each, 1), (total, peers, each)


main()
