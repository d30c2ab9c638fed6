# SPDX-License-Identifier: Apache-2.0
"""docs/report.png and docs/diff.png are the pages of the plans that docs/cli.md names: pictures of below 200 kB. They are
taken in Chromium.

    report_picture.py BUILD_DIRECTORY [--update]"""
import base64
import collections
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = {"report": ("gpt3.html", 970), "diff": ("gpt3-diff.html", 1190)}  # page, height
WIDTH, LARGEST = 1180, 200_000
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(png):
    assert png[:8] == SIGNATURE
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at:at + 4])
        yield png[at + 4:at + 8], png[at + 8:at + 8 + length]
        at += 12 + length


def rows_of(png):
    """Of a picture with 8 bits a channel, without interlacing: bytes, and how many a pixel has."""
    parts = list(chunks(png))
    width, height, depth, colour = struct.unpack(">IIBB", parts[0][1][:10])
    step = {2: 3, 6: 4}[colour]
    assert depth == 8
    data = zlib.decompress(b"".join(content for kind, content in parts if kind == b"IDAT"))
    above, length = bytearray(width * step), width * step + 1
    for y in range(height):
        kind, row = data[y * length], bytearray(data[y * length + 1:(y + 1) * length])
        for i in range(len(row)):
            left, corner = (row[i - step], above[i - step]) if i >= step else (0, 0)
            if kind == 4:
                near = left + above[i] - corner
                guess = min((left, above[i], corner), key=lambda value: abs(near - value))
            else:
                guess = (0, left, above[i], (left + above[i]) // 2)[kind]
            row[i] = row[i] + guess & 255
        above = row
        yield row, step


def smaller(png):
    """The same picture in at most 256 colours."""
    pixels = [[bytes(value & 0xf8 | value >> 5 for value in row[i:i + 3]) for i in range(0, len(row), step)] for row, step in rows_of(png)]
    palette = [colour for colour, _ in collections.Counter(c for row in pixels for c in row).most_common(256)]
    place = {colour: i for i, colour in enumerate(palette)}

    def nearest(colour):
        if colour not in place:
            place[colour] = min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(palette[i], colour)))
        return place[colour]

    data = b"".join(b"\0" + bytes(map(nearest, row)) for row in pixels)
    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 3, 0, 0, 0)
    out = SIGNATURE
    for kind, content in [(b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b"")]:
        out += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return out


def commands():
    lines = re.findall(r"^\$ (remat-(?:graph gpt3-175b|compile gpt3|dump gpt3).*)$", (ROOT / "docs/cli.md").read_text(encoding="utf-8"), re.M)
    assert len(lines) == 5, lines
    return [shlex.split(line) for line in lines]


def take(tools):
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    from browser import start
    folder = pathlib.Path(tempfile.mkdtemp())
    for command in commands():
        subprocess.run([tools / command[0], *command[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    driver = start()
    try:
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        for picture, (page, height) in PICTURES.items():
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False})
            driver.get((folder / page).as_uri())
            driver.execute_script("drawAll()")
            png = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
            (ROOT / f"docs/{picture}.png").write_bytes(smaller(base64.b64decode(png)))
    finally:
        driver.quit()


def main():
    if "--update" in sys.argv:
        take(pathlib.Path(os.path.abspath(sys.argv[1])) / "tools")
    commands()
    for picture, (_, high) in PICTURES.items():
        png = (ROOT / f"docs/{picture}.png").read_bytes()
        width, height = struct.unpack(">II", next(chunks(png))[1][:8])
        assert (width, height) == (WIDTH, high) and len(png) < LARGEST, (picture, width, height, len(png))


main()
