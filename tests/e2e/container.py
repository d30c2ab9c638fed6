# SPDX-License-Identifier: Apache-2.0
"""Plans and graphs with some of their bytes changed, under a checksum that fits (docs/formats.md)."""
import struct

HEADER_BYTES = 32
MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def rotate(x, bits):
    return (x << bits | x >> 64 - bits) & MASK


def mix(lane, word):
    return rotate((lane + word * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK


def xxh64(data):
    """XXH64 with seed 0."""
    end = len(data) // 32 * 32 if len(data) >= 32 else 0
    result = PRIMES[4]
    if end:
        lanes = [(PRIMES[0] + PRIMES[1]) & MASK, PRIMES[1], 0, -PRIMES[0] & MASK]
        for words in struct.iter_unpack("<4Q", data[:end]):
            lanes = [mix(lane, word) for lane, word in zip(lanes, words)]
        result = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            result = ((result ^ mix(0, lane)) * PRIMES[0] + PRIMES[3]) & MASK
    result = (result + len(data)) & MASK
    rest = data[end:]
    while len(rest) >= 8:
        result = (rotate(result ^ mix(0, struct.unpack("<Q", rest[:8])[0]), 27) * PRIMES[0] + PRIMES[3]) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        word = struct.unpack("<I", rest[:4])[0] * PRIMES[0]
        result = (rotate(result ^ word & MASK, 23) * PRIMES[1] + PRIMES[2]) & MASK
        rest = rest[4:]
    for byte in rest:
        result = rotate(result ^ byte * PRIMES[4] & MASK, 11) * PRIMES[0] & MASK
    for shift, prime in ((33, PRIMES[1]), (29, PRIMES[2])):
        result = (result ^ result >> shift) * prime & MASK
    return result ^ result >> 32


def replace(file, old, new):
    """The file's bytes with every `old` as `new`, of the same length."""
    contents = file[HEADER_BYTES:]
    assert len(old) == len(new) and old in contents, old
    contents = contents.replace(old, new)
    return file[:16] + struct.pack("<Q", xxh64(contents)) + file[24:HEADER_BYTES] + contents
