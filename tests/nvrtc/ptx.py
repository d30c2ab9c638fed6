# SPDX-License-Identifier: Apache-2.0
"""The PTX that NVRTC makes of each primitive of primitives.cu against ptx.def, which says what PTX's manual asks for:
opcode, modifiers, order of operands, masks and other constants; and inline assembly that is not of registers alone
is volatile and says that it uses memory. With --mutants each fault of ptx_mutants.def, planted into primitives.cu,
must change a row or break that rule.

    ptx.py [--mutants] [--show]"""
import ctypes
import pathlib
import re
import sys

from library import ROOT, missing, option

HERE, PRIMITIVES = pathlib.Path(__file__).resolve().parent, ROOT / "compiler/codegen/primitives.cu"
HEAD = """#define IN(k) (*(const u32 *)(arguments.word[0] + 4 * (k)))
#define OUT(k, x) (*(u32 *)(arguments.word[1] + 4 * (k)) = (x))
#define F(k) float_of_bits(IN(k))
#define G(k, x) OUT(k, bits_of_float(x))
#define in ((const u8 *)arguments.word[0])
#define out ((u8 *)arguments.word[1])
"""


def read(name, *kinds):
    """The calls of a .def file: (which, arguments), strings being Python's too."""
    found = []
    text = re.sub(r"/\*.*?\*/", "", (HERE / name).read_text(), flags=re.S)
    exec(text, {kind: lambda *row, kind=kind: found.append((kind, row)) for kind in kinds})
    return found


# --- NVRTC ---

def options():
    """What the product compiles with, but for PTX."""
    text = (ROOT / "runtime/program/nvrtc.c").read_text()
    common = re.search(r"\{([^{}]*--fmad[^{}]*)NULL\}", text).group(1)
    return ["--gpu-architecture=compute_80", *re.findall(r'"(--[^"]*)"', common)]


class Nvrtc:
    def __init__(self):
        folder = option("--libraries")[1:]
        if folder:  # it has no path to its builtins
            for builtins in sorted(pathlib.Path(folder[0]).glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins))
        for major in ["13", "12"]:
            try:
                self.library = ctypes.CDLL(str(pathlib.Path(*folder, f"libnvrtc.so.{major}")))
                return
            except OSError as error:
                self.why = str(error)
        sys.exit(missing(self.why))

    def ptx(self, text, flags):
        program, bytes_, lib = ctypes.c_void_p(), ctypes.c_size_t(), self.library
        lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"primitives.cu", 0, None, None)
        flags = [flag.encode() for flag in flags]
        result = lib.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        get = "ProgramLog" if result else "PTX"
        getattr(lib, f"nvrtcGet{get}Size")(program, ctypes.byref(bytes_))
        found = ctypes.create_string_buffer(bytes_.value)
        getattr(lib, f"nvrtcGet{get}")(program, found)
        lib.nvrtcDestroyProgram(ctypes.byref(program))
        if result:
            raise SyntaxError(found.value.decode())
        return found.value.decode()


# --- inline assembly ---

OF_REGISTERS = {"cvt", "ex2", "mma"}  # what the compiler may move, merge and leave out


def statements(text):
    """Every inline assembly: (volatile or not, its first opcode, its text)."""
    for match in re.finditer(r"\b(?:__)?asm(?:__)?\b([\s\w]*)\(", text):
        depth, end = 1, match.end()
        while depth:
            token = re.compile(r'"(?:[^"\\]|\\.)*"|[()]').search(text, end)
            depth, end = depth + {"(": 1, ")": -1}.get(token.group(), 0), token.end()
        statement = text[match.start():end]
        yield "volatile" in match.group(1), re.search(r'"\s*([a-z0-9]*)', statement).group(1), statement


def movable(text):
    """Those that the compiler might leave out, or move past accesses of memory, and must not."""
    return [statement for volatile, opcode, statement in statements(text) if opcode not in OF_REGISTERS and
            not (volatile and (not opcode or '"memory"' in statement))]


# --- reading PTX ---

def operands(text):
    """Split at commas outside of brackets."""
    return [part.strip() for part in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text) if part.strip()]


def plain(line):
    """Names without what the compiler puts around them, and types of bits where signs mean nothing."""
    line = re.sub(r"_ZZ\d+row_\w+E\d+(\w+)", r"\1", line)
    line = re.sub(r"[\w$]+_param_0", "arguments", re.sub(r"\$L\w+", "label", line))
    line = re.sub(r"\b((?:ld|st)[\w.]*)\.(?:[usf](?=[36])|u)(\d+)\b", r"\1.b\2", line)
    return re.sub(r"\b(ld|st)\.global\.", r"\1.", line)


class Kernel:
    """A straight line of instructions, with what each register holds in place of its name: "in3" is a word that
    the kernel loaded, "a" the result of the first instruction that is not a plain move, "b" of the second, "a.1" the
    second of its several results."""

    def __init__(self, head, body, all_memory):
        self.values, self.lines, self.all_memory, self.count = {}, [], all_memory, 0
        for declared in re.findall(r"\.(?:local|shared) [^;]*", body):
            self.lines.append(plain(declared))
        body = re.sub(r"// begin inline asm\s*// end inline asm", "asm;", body)
        for line in re.sub(r"//[^\n]*", "", body).split(";"):
            self.instruction(plain(" ".join(line.split())))

    def value(self, operand):
        return re.sub(r"%[a-z]+\d+", lambda match: self.values.get(match.group(0), match.group(0)), operand)

    def set(self, registers, value):
        for index, register in enumerate(registers):
            self.values[register] = value if len(registers) == 1 else f"{value}.{index}"

    def instruction(self, line):
        match = re.match(r"^(?:label:\s*)?(@!?%p\d+ )?(?!label)([a-z][\w.:]*)\s*(.*)$", line)
        if not match or match.group(2) == "ret":
            return
        guard, opcode, rest = match.groups()
        parts = operands(rest)
        sources = [self.value(part) for part in parts]
        argument = re.match(r"^\[arguments(?:\+(\d+))?\]$", sources[1]) if opcode == "ld.param.b64" else None
        loaded = re.match(r"^\[in(?:\+(\d+))?\]$", sources[1]) if opcode == "ld.b32" else None
        stored = re.match(r"^\[out(?:\+(\d+))?\]$", sources[0]) if opcode == "st.b32" else None
        if opcode.startswith(("mov.", "cvta.to.global")) and "{" not in rest:
            self.set([parts[0]], sources[1])
        elif argument:
            word = int(argument.group(1) or 0) // 8
            self.set([parts[0]], ["in", "out"][word] if word < 2 else f"word{word}")
        elif loaded and not self.all_memory:
            self.set([parts[0]], f"in{int(loaded.group(1) or 0) // 4}")
        elif stored and not self.all_memory:
            self.lines.append(f"out{int(stored.group(1) or 0) // 4} = {sources[1]}")
        elif opcode.startswith(("st.", "cp.", "bar.", "bra", "asm")):
            self.lines.append(f"{self.value(guard or '')}{opcode} {', '.join(sources)}".strip())
        else:
            name = chr(ord("a") + self.count)
            self.count += 1
            self.set(re.findall(r"%[a-z]+\d+", parts[0]), name)
            self.lines.append(f"{name} = {opcode} {', '.join(sources[1:])}")


def kernels(ptx, rows):
    """{row: its lines}"""
    found = {}
    for name, head, body in re.findall(r"\.entry row_(\w+?)\((.*?)\{\n(.*?)\n\}", ptx, flags=re.S):
        lines = Kernel(head, body, rows[name][0] == "MEMORY_ROW").lines
        if "tile_memory" in body:
            lines[:0] = re.findall(r"\.extern \.shared [^;]*", ptx)
        if rows[name][0] == "KERNEL_ROW":
            lines[:0] = [*(f"{int(n) // 8} words" for n in re.findall(r"_param_0\[(\d+)\]", head)),
                         *(f"{n} threads" for n in re.findall(r"\.maxntid (\d+)", head))]
        found[name] = lines
    return found


# --- rows ---

def text_of(primitives, rows):
    bodies = [row[2] if kind == "KERNEL_ROW" else f"KERNEL(row_{name}, 32)\n{{\n{row[2]}\n}}\n"
              for name, (kind, row) in rows.items()]
    return primitives + HEAD + "\n".join(bodies)


def names_in(primitives):
    """All that a kernel may call, and the macros."""
    return (set(re.findall(r"^DEV [\w ]*?\b(\w+)\(", primitives, flags=re.M)) |
            set(re.findall(r"^#define (\w+)", primitives, flags=re.M)) |
            set(re.findall(r"^MATRIX_PRODUCT\((\w+)", primitives, flags=re.M))) - {"REMAT_PRIMITIVES", "MATRIX_PRODUCT"}


def differing(nvrtc, primitives, flags, rows):
    """{row: (expected, found)} where they differ; "" for one, where it does not compile."""
    try:
        found = kernels(nvrtc.ptx(text_of(primitives, rows), flags), rows)
    except SyntaxError as error:
        return {"": ([], str(error).splitlines())}
    return {name: (list(row[3:]), found.get(name)) for name, (_, row) in rows.items()
            if found.get(name) != list(row[3:])}


def main():
    nvrtc, primitives, flags = Nvrtc(), PRIMITIVES.read_text(), options()
    rows = {row[0]: (kind, row) for kind, row in read("ptx.def", "ROW", "MEMORY_ROW", "KERNEL_ROW")}
    faults = [f"{name}: no row in ptx.def" for name in sorted(names_in(primitives) - set(rows))]
    for name, (expected, found) in differing(nvrtc, primitives, flags, rows).items():
        faults.append("\n    ".join([f"{name}:", *(found or ["no kernel"]), "and should be", *expected]))
    for path in sorted(PRIMITIVES.parent.glob("*.c*")):
        faults += [f"{path.name}: {statement}" for statement in movable(path.read_text())]
    mutants = read("ptx_mutants.def", "MUTANT", "OPTION_MUTANT", "ASM_MUTANT") if "--mutants" in sys.argv else []
    for kind, (what, find, replacement) in mutants:
        if kind != "OPTION_MUTANT" and primitives.count(find) != 1:
            faults.append(f"{what}: primitives.cu has {primitives.count(find)} times \"{find}\", not once")
            continue
        if kind == "ASM_MUTANT":
            faults += [] if movable(primitives.replace(find, replacement)) else [f"{what}: NOT FOUND"]
            continue
        of_options = kind == "OPTION_MUTANT"
        changed = differing(nvrtc, primitives if of_options else primitives.replace(find, replacement),
                            [replacement if flag == find else flag for flag in flags] if of_options else flags, rows)
        if of_options and find not in flags:
            faults.append(f"{what}: there is no \"{find}\"")
        elif not changed or "" in changed:
            faults.append(f"{what}: {'NOT FOUND' if not changed else changed['']}")
        elif "--show" in sys.argv:
            print(f"{what}: {', '.join(changed)}")
    print("\n".join(faults) or f"ok: {len(rows)} primitives, {len(mutants)} faults")
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
