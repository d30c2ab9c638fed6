#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays a newcomer who has a clean Debian 12 and the README: clones this repository (what is committed), then runs
every command of README.md in order, but for those that need PyTorch, and compares what it prints with what the README
shows.

    newcomer.py [FOLDER (default: a temporary one)]

By hand, as root. In FOLDER the clean image stays for the next time. Prints the seconds and CPU seconds of each
command. What is downloaded comes first, apart. A command that fails or prints something else, or more than ten
minutes in all, is an error."""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests/docs"))
import commands

MIRROR = "http://deb.debian.org/debian"
LIMIT_S = 600
# The command is $0; its directory and its exports are those of one terminal.
IN_IMAGE = """mount -t proc proc "$IMAGE/proc" && mount --rbind /dev "$IMAGE/dev" || exit
exec chroot "$IMAGE" bash -c '[ ! -f /root/terminal ] || . /root/terminal
eval "$0"
code=$?
{ export -p; printf "cd %q\\n" "$PWD"; } >/root/terminal
exit $code' "$0" """
SHELL = ["unshare", "--mount", "sh", "-c", IN_IMAGE]


class Clock:
    def __init__(self):
        self.total_s = 0.0

    def time(self, name, work, counts=True):
        """Runs `work`, which returns a fault or ""; whether there was none."""
        begin_s, begin = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        fault = work()
        seconds, end = time.monotonic() - begin_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        self.total_s += seconds if counts else 0
        cpu_s = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
        print(f"{seconds:7.1f} {cpu_s:7.1f}  {name}" + (f"\n  FAILED: {fault}" if fault else ""), flush=True)
        return not fault


def call(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", **options)
    return f"exit code {done.returncode}\n{done.stdout}" if done.returncode else ""


def make_image(folder, image):
    """A Debian with nothing but git, as FOLDER/clean.tar and unpacked."""
    archive = os.path.join(folder, "clean.tar")
    if not os.path.exists(archive):
        env, debootstrap = dict(os.environ), shutil.which("debootstrap")
        if not debootstrap:
            fault = call("apt-get download debootstrap && dpkg-deb -x debootstrap_*.deb .", shell=True, cwd=folder)
            if fault:
                return fault
            debootstrap = os.path.join(folder, "usr/sbin/debootstrap")
            env["DEBOOTSTRAP_DIR"] = os.path.join(folder, "usr/share/debootstrap")
        fault = call(["unshare", "--mount", "sh", debootstrap, "--variant=minbase", "--include=git", "bookworm", image, MIRROR],
                     env=env) or call(["tar", "-C", image, "-cf", archive, "."])
        shutil.rmtree(image)
        if fault:
            return fault
    os.mkdir(image)
    return call(["tar", "-C", image, "-xf", archive])


def download_packages(env):
    with open(os.path.join(SOURCE, "tools/setup.sh"), encoding="utf-8") as script:
        packages = re.search(r"^packages=\((.*?)\)", script.read(), re.DOTALL | re.MULTILINE)[1].split()
    return call(SHELL + ["apt-get update -qq && apt-get install -y -qq --download-only --no-install-recommends "
                         + " ".join(packages)], env=env)


def play(folder):
    image = os.path.join(folder, "image")
    shutil.rmtree(image, ignore_errors=True)
    env = {"IMAGE": image, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
           "LC_ALL": "C.UTF-8"}
    clock = Clock()
    print("seconds     CPU  (downloads)")
    if not (clock.time("a clean Debian", lambda: make_image(folder, image), counts=False) and
            clock.time("packages", lambda: download_packages(env), counts=False)):
        return 1
    print("seconds     CPU")
    faults = 0
    subprocess.run(["git", "clone", "--bare", "--quiet", SOURCE, os.path.join(image, "remat.git")], check=True)
    if not clock.time("git clone", lambda: call(SHELL + ["git clone -q /remat.git /root/remat && cd /root/remat"], env=env)):
        return 1
    for command in commands.read(os.path.join(image, "root/remat/README.md")):
        if command.skip.startswith("needs PyTorch"):
            continue
        faults += not clock.time(command.text, lambda: commands.run(command, folder, env, SHELL))
    print(f"{clock.total_s:.0f} s, {faults} failed")
    return int(faults > 0 or clock.total_s > LIMIT_S)


def main():
    if len(sys.argv) > 2 or os.geteuid() != 0:
        print(__doc__)
        return 2
    if len(sys.argv) == 2:
        os.makedirs(sys.argv[1], exist_ok=True)
        return play(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        return play(folder)


if __name__ == "__main__":
    sys.exit(main())
