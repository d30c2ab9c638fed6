# SPDX-License-Identifier: Apache-2.0
"""Numbers of bytes, as users write and read them: 80GB is 80e9 bytes, 80GiB is 80 * 2**30, a bare number bytes."""
import re

from .errors import Error

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
         "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def parse_bytes(size):
    """A number of bytes from an int or a text such as "60GB"."""
    if isinstance(size, int) and not isinstance(size, bool):
        number, unit = float(size), ""
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:e\d+)?)\s*([a-zA-Z]*)\s*", str(size))
        if not match or match[2].lower() not in UNITS:
            bare = re.fullmatch(r"([\d.]+)([kKmMgGtT])", str(size))
            hint = f": {size}B or {bare[1]}{bare[2].upper()}iB?" if bare else ""
            raise Error(f"budget '{size}' is not a number of bytes (examples: 60GB, 55.5GiB, 60000000000){hint}")
        number, unit = float(match[1]), match[2].lower()
    value = int(number * UNITS[unit])
    if value <= 0:
        raise Error(f"budget '{size}' must be positive")
    return value


def format_bytes(count):
    """Decimal units, three or four digits: 25.43 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"
