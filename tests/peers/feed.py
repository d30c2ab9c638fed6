# SPDX-License-Identifier: Apache-2.0
"""What remat-run feeds a plan: the rules of tools/run/text.h, written once more."""
import torch

MASK64 = (1 << 64) - 1


def read_text(path):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()


def rows(text, window, batch, seq, offset, count):
    """`count` ids of each row of a window, from `offset` bytes after its start."""
    starts = (window * batch + torch.arange(batch)) * seq + offset
    return text[(starts[:, None] + torch.arange(count)[None, :]) % len(text)]


def mix(state):
    """splitmix64"""
    z = (state + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK64
    return z ^ z >> 31


def mask(tokens, step, vocab):
    """Tokens with some hidden, at least one in a row, and the targets: -100 where nothing is."""
    hidden, targets = tokens.clone(), torch.full_like(tokens, -100)
    seq = tokens.shape[1]
    for row, ids in enumerate(tokens.tolist()):
        draws = [mix((mix(step) + row * seq + t) & MASK64) for t in range(seq)]
        chosen = [t for t in range(seq) if draws[t] & 0xFFFFFFFF < 0.15 * 2**32]
        for t in chosen or [(draws[0] >> 32) % seq]:
            targets[row, t] = ids[t]
            if draws[t] >> 32 < 0.8 * 2**32:
                hidden[row, t] = vocab - 1
            elif draws[t] >> 32 < 0.9 * 2**32:
                hidden[row, t] = mix(draws[t]) % vocab
    return hidden, targets


def inputs(family, text, step, batch, seq, source_seq, vocab):
    """Name -> ids of step `step`, counted from 1."""
    this = rows(text, step - 1, batch, seq, 0, seq)
    if family == "bert":
        tokens, targets = mask(this, step, vocab)
        return {"tokens": tokens, "targets": targets}
    if family == "encdec":
        return {"source": rows(text, step - 1, batch, seq, 0, source_seq),
                "tokens": rows(text, step, batch, seq, 0, seq),
                "targets": rows(text, step, batch, seq, 1, seq)}
    return {"tokens": this, "targets": rows(text, step - 1, batch, seq, 1, seq)}
