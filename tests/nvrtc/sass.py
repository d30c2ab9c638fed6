# SPDX-License-Identifier: Apache-2.0
"""How many instructions a warp of a kernel issues: the control flow of SASS, run.

One thread, the first of its warp, is followed through the kernel. Integers that come from the launch, the
thread and the block are known; what is loaded, shuffled or floating is not, and neither is what depends on it.
Branches depend on what is known, but for two kinds. A slow path (of a division or a square root whose
operand is subnormal or huge) calls a function, and is left out. Other unknown branches fall through."""
import functools
import pathlib
import re
import struct
import subprocess
import tempfile

LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?)(U?P[T0-9]+)\s+)?([A-Z0-9_.]+)\s*(.*?)\s*;")
CONTROL = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/$")  # the upper half of an instruction
MASK = 0xFFFFFFFF
PARAMETERS = 0x210  # where a kernel's arguments begin in constant bank 0, sm_90
STEPS_MAX = 400_000
STORES = ("STG", "STS", "STL", "RED", "BAR", "BSSY", "BSYNC", "NOP", "WARPSYNC")
SETS = ("ISETP", "UISETP", "FSETP", "DSETP", "PLOP3", "UPLOP3", "R2P")
BLOCKS, CAUSAL_BLOCKS = 2, 9  # of causal attention some have much more to do than others


class Unclear(Exception):
    pass


class Instruction:
    def __init__(self, match):
        negated, predicate, name, operands = match.groups()
        self.predicate, self.negated = predicate, bool(negated)
        self.name, *self.modifiers = name.split(".")
        self.operands = [part.strip() for part in split(operands)]
        self.wide = not {"64", "WIDE", "128"}.isdisjoint(self.modifiers) or self.name == "CS2R"
        names = [] if self.name in STORES else self.find_destinations()
        self.writes_register = bool(names) and self.name not in SETS and "R" in names[0]
        self.place = register(names[0]) if self.writes_register else None
        self.written_predicates = [name for name in names[1:] if "P" in name] if self.writes_register else names
        self.operation = "do_" + (self.name[1:] if self.name.startswith("U") and self.name != "UNPACK" else self.name)
        self.target = None
        self.control = 0

    def find_destinations(self):
        names = []
        for operand in self.operands:  # predicates that are written come with the register
            if not re.fullmatch(r"U?(R|P)(\d+|Z|T)", operand):
                break
            names.append(operand)
            if len(names) == 1 and re.match(r"U?P", operand) and self.name in ("LOP3", "ULOP3"):
                break
            if len(names) == (3 if self.name in ("IADD3", "UIADD3", "LEA", "ULEA") else 2):
                break
        return names


def split(text):
    """At commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def machine_code(cubin):
    """Of the kernel and the functions that follow it, from the section .text.KERNEL of an ELF file."""
    data = pathlib.Path(cubin).read_bytes()
    begin, count, names = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 60)
    sections = [struct.unpack_from("<IIQQQQ", data, begin + 64 * k) for k in range(count)]
    found = [data[s[4]:s[4] + s[5]] for s in sections if data.startswith(b".text.", sections[names][4] + s[0])]
    assert len(found) == 1, cubin
    return found[0]


def disassemble(nvdisasm, cubins):
    """Instructions by cubin; functions that follow a kernel are its slow paths. nvdisasm takes longer to start
    than to work, and therefore sees all code as one."""
    parts = [machine_code(cubin) for cubin in cubins]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(parts))
        file.flush()
        text = subprocess.run([nvdisasm, "-b", "SM90", "-hex", file.name], check=True, capture_output=True,
                              text=True).stdout
    all_code, codes = [], {}
    for line in text.splitlines():
        if match := LINE.match(line):
            all_code.append(Instruction(match))
        elif match := CONTROL.match(line):
            all_code[-1].control = int(match[1], 16)
    begin = 0
    for cubin, part in zip(cubins, parts):
        codes[cubin] = all_code[begin:begin + len(part) // 16]
        for instruction in codes[cubin]:
            if instruction.name == "BRA":
                instruction.target = int(instruction.operands[-1], 16) // 16 - begin
        begin += len(part) // 16
    assert begin == len(all_code)
    return codes


@functools.cache
def register(name):
    match = re.fullmatch(r"(U?R)(\d+)", name)
    return match and (match[1], int(match[2]))


@functools.cache
def source(operand):
    """What a 32-bit operand is, its number, and whether it is negated or flipped."""
    text = operand.replace(".reuse", "")
    signs = text.startswith("-"), text.startswith("~")
    text = text.lstrip("-~").strip("|")
    text = text.split(".")[0] if re.match(r"U?R", text) else text
    if re.fullmatch(r"U?RZ", text):
        return "number", 0, *signs
    if found := register(text):
        return *found, *signs
    if match := re.fullmatch(r"c\[0x0\]\[(0x[0-9a-f]+)\]", text):
        return "constant", int(match[1], 16), *signs
    if re.fullmatch(r"0x[0-9a-f]+|\d+", text):
        return "number", int(text, 0) & MASK, *signs
    return "unknown", 0, *signs


def signed(x):
    return x - (1 << 32) if x & 0x80000000 else x


def lop3(a, b, c, table):
    result = 0
    for bit in range(8):
        if table >> bit & 1:
            result |= (a if bit & 4 else ~a) & (b if bit & 2 else ~b) & (c if bit & 1 else ~c)
    return result & MASK


class Thread:
    """Registers and predicates are integers, or None where they are not known."""

    def __init__(self, code, words, thread, block):
        self.code, self.words = code, words
        self.special = {"SR_TID.X": thread, "SR_CTAID.X": block, "SR_LANEID": thread % 32}
        self.registers, self.predicates = {}, {}
        self.issued = self.products = self.loaded_bytes = 0

    def run(self):
        at = 0
        while True:
            instruction = self.code[at]
            runs = self.test(instruction.predicate, instruction.negated) if instruction.predicate else 1
            self.issue(at, runs)
            if self.issued > STEPS_MAX:
                raise Unclear(f"more than {STEPS_MAX} instructions")
            name = instruction.name
            if name == "BRA":
                at = self.branch(at, instruction, runs)
                continue
            if name == "EXIT" and runs:
                return
            if name == "CALL" and runs:
                raise Unclear("a call")
            self.products += name == "HMMA"
            if name == "LDG":
                self.loaded_bytes += next((int(m) // 8 for m in instruction.modifiers if m in ("64", "128")), 4)
            at += 1
            if runs == 0 or name == "EXIT":
                continue
            result = self.execute(instruction)
            if runs is None:
                result = None
            self.write(instruction, result)

    def issue(self, _at, _runs):
        self.issued += 1

    def branch(self, at, instruction, runs):
        for operand in instruction.operands[:-1]:  # "BRA P0, 0x10" and "BRA.U UP0, 0x10"
            also = self.test(operand.lstrip("!"), operand.startswith("!"))
            runs = None if runs is None or also is None else runs & also
        if runs is None:
            runs = int(self.calls(at + 1) and not self.calls(instruction.target))
        return instruction.target if runs else at + 1

    def calls(self, at):
        """Whether the way from here leads to a call before it branches."""
        while self.code[at].name not in ("BRA", "EXIT", "BSYNC"):
            if self.code[at].name == "CALL":
                return True
            at += 1
        return False

    def test(self, name, negated):
        value = 1 if name in ("PT", "UPT") else self.predicates.get(name)
        return value if value is None else value ^ negated

    def value(self, operand, high=False):
        """Of a 32-bit source; `high`: of the upper register of a pair."""
        kind, number, negate, flip = source(operand)
        if kind == "number":
            value = 0 if high else number
        elif kind == "constant":
            value = self.constant(number + 4 * high)
        else:
            value = self.registers.get((kind, number + high))
        if value is None:
            return None
        return -value & MASK if negate else ~value & MASK if flip else value

    def constant(self, offset):
        word, part = divmod(offset - PARAMETERS, 8)
        if not 0 <= word < 512:
            return 0
        value = self.words[word] if word < len(self.words) else 0
        return value >> 8 * part & MASK

    def wide(self, operand):
        low, high = self.value(operand), self.value(operand, True)
        return None if low is None or high is None else low | high << 32

    def sources(self, operands):
        return [self.value(operand) for operand in operands]

    def write(self, instruction, result):
        """`result`: an integer, None, or of each destination one."""
        results = result if isinstance(result, list) else [result]
        if instruction.place:
            self.set(instruction.place, results[0], instruction.wide)
        if instruction.written_predicates:
            results = [*results[instruction.writes_register:], None, None]
            self.predicates.update(zip(instruction.written_predicates, results))

    def set(self, place, value, wide):
        kind, number = place
        self.registers[place] = value if value is None else value & MASK
        if wide:
            self.registers[kind, number + 1] = None if value is None else value >> 32 & MASK

    def execute(self, instruction):
        operation = getattr(self, instruction.operation, None)
        return operation(instruction) if operation else None

    # --- what integers need ---

    def do_LDC(self, i):
        return self.wide(i.operands[1]) if "64" in i.modifiers else self.value(i.operands[1])

    do_MOV = do_LDC

    def do_R2UR(self, i):
        return self.value(i.operands[1])

    def do_CS2R(self, _):
        return 0

    def do_HFMA2(self, i):
        """A constant, as two halves."""
        if i.operands[1].lstrip("-") != "RZ" or i.operands[2] != "RZ":
            return None
        high, low = (struct.unpack("<H", struct.pack("<e", float(x)))[0] for x in i.operands[3:5])
        return high << 16 | low

    def do_S2R(self, i):
        return self.special.get(i.operands[1])

    do_S2UR = do_S2R

    def do_IADD3(self, i):
        places = [o for o in i.operands[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
        values = self.sources(places)
        if None in values:
            return None
        total = sum(values)
        if "X" in i.modifiers:
            carry = [self.test(o.lstrip("!"), o.startswith("!")) for o in i.operands[1:]
                     if re.fullmatch(r"!?U?P(\d+|T)", o)][-2:]
            carry = [0 if x is None else x for x in carry if x is not None]
            total += sum(carry[:1])
        return [total, int(total > MASK)]

    def do_VIADD(self, i):
        values = self.sources(i.operands[1:3])
        return None if None in values else sum(values)

    def do_IMAD(self, i):
        if "WIDE" in i.modifiers:
            a, b, c = *self.sources(i.operands[1:3]), self.wide(i.operands[3])
            if None in (a, b, c):
                return None
            if "U32" not in i.modifiers:
                a, b = signed(a), signed(b)
            return a * b + c & (1 << 64) - 1
        places = [o for o in i.operands[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
        a, b, c = self.sources(places[:3])
        if "HI" in i.modifiers:  # of the product and a pair
            c = self.wide(places[2])
            return None if None in (a, b, c) else a * b + c >> 32
        if c is not None and 0 in (a, b):
            return c
        return None if None in (a, b, c) else a * b + c

    def do_LEA(self, i):
        places = [o for o in i.operands[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
        if "HI" in i.modifiers:
            a, b, c, shift = self.sources(places[:4])
            if None in (a, b, c, shift):
                return None
            return ((a | c << 32) << shift >> 32) + b
        a, b, shift = self.sources(places[:3])
        if None in (a, b, shift):
            return None
        total = (a << shift & MASK) + b
        return [total, int(total > MASK)]

    def do_SHF(self, i):
        low, shift, high = self.sources(i.operands[1:4])
        if shift is None:
            return None
        if "L" in i.modifiers:
            if "HI" in i.modifiers:
                return None if None in (low, high) else (high << 32 | low) << (shift & 63) >> 32
            return None if low is None else low << shift if shift < 32 else 0
        if "HI" in i.modifiers:
            if high is None:
                return None
            return (signed(high) if "S32" in i.modifiers else high) >> min(shift, 32)
        return None if None in (low, high) else (high << 32 | low) >> (shift & 63)

    def do_LOP3(self, i):
        """With a predicate first: whether the result, which comes next, is not zero."""
        tests = re.fullmatch(r"U?P\d+", i.operands[0]) is not None
        a, b, c, table = self.sources(i.operands[1 + tests:5 + tests])
        needs = [table >> 4 != (table & 15), any((table >> k ^ table >> k + 2) & 1 for k in (0, 1, 4, 5)),
                 any((table >> k ^ table >> k + 1) & 1 for k in (0, 2, 4, 6))]
        if table == 0xc0 and 0 in (a, b):
            result = 0
        elif any(need and x is None for need, x in zip(needs, (a, b, c))):
            result = None
        else:
            result = lop3(a or 0, b or 0, c or 0, table)
        if not tests:
            return result
        if place := register(i.operands[1]):
            self.set(place, result, False)
        return [None if result is None else int(result != 0)]

    def do_ISETP(self, i):
        compare = {"EQ": "__eq__", "NE": "__ne__", "LT": "__lt__", "LE": "__le__", "GT": "__gt__",
                   "GE": "__ge__"}[i.modifiers[0]]
        a, b = self.sources(i.operands[2:4])
        also = i.operands[4]
        also = self.test(also.lstrip("!"), also.startswith("!"))
        if "EX" in i.modifiers:
            return self.compare_pairs(i, compare, a, b)
        if "OR" in i.modifiers and also == 1:
            return [1, 1]
        if "AND" in i.modifiers and also == 0:
            return [0, 0]
        if None in (a, b, also):
            return None
        if "U32" not in i.modifiers:
            a, b = signed(a), signed(b)
        found = int(getattr(a, compare)(b))
        return [found & also if "AND" in i.modifiers else found | also]

    def compare_pairs(self, i, compare, a, b):
        """The upper halves; the last predicate is what the lower ones gave."""
        lower = self.test(i.operands[5].lstrip("!"), i.operands[5].startswith("!"))
        if None in (a, b, lower):
            return None
        if "U32" not in i.modifiers:
            a, b = signed(a), signed(b)
        return [lower if a == b else int(getattr(a, compare)(b))]

    def do_PLOP3(self, i):
        """Of predicates, in and out."""
        names = [o for o in i.operands if re.fullmatch(r"!?U?P(\d+|T)", o)]
        a, b, c = (self.test(o.lstrip("!"), o.startswith("!")) for o in names[2:5])
        table = int(i.operands[5], 0)
        results = {table >> (x << 2 | y << 1 | z) & 1 for x in ((0, 1) if a is None else (a,))
                   for y in ((0, 1) if b is None else (b,)) for z in ((0, 1) if c is None else (c,))}
        return [results.pop()] if len(results) == 1 else None

    def do_SEL(self, i):
        a, b = self.sources(i.operands[1:3])
        which = self.test(i.operands[3].lstrip("!"), i.operands[3].startswith("!"))
        return None if which is None else a if which else b

    def do_VIMNMX(self, i):
        a, b = self.sources(i.operands[1:3])
        which = self.test(i.operands[3].lstrip("!"), i.operands[3].startswith("!"))
        if None in (a, b, which):
            return None
        key = (lambda x: x) if "U32" in i.modifiers else signed
        return min(a, b, key=key) if which else max(a, b, key=key)

    do_IMNMX = do_VIMNMX

    def do_VIADDMNMX(self, i):
        a, b, c = self.sources(i.operands[1:4])
        which = self.test(i.operands[4].lstrip("!"), i.operands[4].startswith("!"))
        if None in (a, b, c, which):
            return None
        key = (lambda x: x) if "U32" in i.modifiers else signed
        return (min if which else max)(a + b & MASK, c, key=key)

    def do_I2F(self, i):
        x = self.value(i.operands[1])
        return None if x is None else struct.unpack("<I", struct.pack("<f", float(x)))[0]

    def do_MUFU(self, i):
        x = self.value(i.operands[1])
        if i.modifiers[0] != "RCP" or not x:
            return None
        return struct.unpack("<I", struct.pack("<f", 1 / struct.unpack("<f", struct.pack("<I", x))[0]))[0]

    def do_F2I(self, i):
        x = self.value(i.operands[1])
        return None if x is None else int(struct.unpack("<f", struct.pack("<I", x))[0])


def follow(code, launch, thread, block):
    one = Thread(code, launch["words"], thread, block)
    one.run()
    return one


def count(code, launch):
    """What all warps of a launch do: instructions, matrix products, bytes that are loaded. From a few of its
    blocks, spread so that they fall into any pattern. The first two warps of a block may have more to do: they
    finish its sums."""
    many = CAUSAL_BLOCKS if any(instruction.name == "HMMA" for instruction in code) else BLOCKS
    blocks = sorted({int((k * 0.6180339887 + 0.05) % 1 * launch["blocks"]) for k in range(many)})
    warps = launch["threads"] // 32
    samples = [(0, min(2, warps)), *([(warps - 1, warps - 2)] if warps > 2 else [])]
    total = [0, 0, 0]
    for block in blocks:
        for warp, stands_for in samples:
            one = follow(code, launch, warp * 32, block)
            for k, found in enumerate((one.issued, one.products, one.loaded_bytes * 32)):
                total[k] += stands_for * found * launch["blocks"] / len(blocks)
    return total
