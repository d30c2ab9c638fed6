# SPDX-License-Identifier: Apache-2.0
"""--emit-cuda where one kernel has so many ops that their names make no file's name: every kernel of the
plan still has a file, named as its function.

    kernel_files.py REMAT_COMPILE"""
import os
import re
import subprocess
import sys
import tempfile

OPS = 60
HEAD = """graph "long"
optimizer sgd { weight_decay = 0.0 }
input %tokens : i32[1,16]
input %targets : i32[1,16]
parameter %table : f32[256,32] = normal(0.0, 0.02)
parameter %head : f32[32,256] = normal(0.0, 0.02)
%x.0 : f32[1,16,32] = embedding %table %tokens phase forward
"""
OP = "%x.{next} : f32[1,16,32] = scale %x.{last} {{ scale = 1.5 }} phase forward\n"
TAIL = """%logits : f32[1,16,256] = linear %x.{last} %head phase forward
%loss : f32[] output, %loss.1 : f32[1,16,1] = cross_entropy %logits %targets phase loss
output %loss
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        graph, kernels = os.path.join(folder, "long.graph"), os.path.join(folder, "kernels")
        with open(graph, "w", encoding="utf-8") as file:
            ops = (OP.format(next=i + 1, last=i) for i in range(OPS))
            file.write(HEAD + "".join(ops) + TAIL.format(last=OPS))
        subprocess.run([sys.argv[1], graph, "--emit-cuda", kernels], check=True, stdout=subprocess.DEVNULL)
        longest = 0
        for name in os.listdir(kernels):
            with open(os.path.join(kernels, name), encoding="utf-8") as file:
                key, function = re.findall(r"/\* (\S+) \*/\n\w*KERNEL\((\w+),", file.read())[-1]
            longest = max(longest, len(key))
            if name != function + ".cu":
                print(f"{name}: the function is {function}")
                return 1
    print(f"longest key: {longest} characters")
    return longest <= 255


if __name__ == "__main__":
    sys.exit(main())
