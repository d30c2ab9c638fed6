# SPDX-License-Identifier: Apache-2.0
"""remat-run --init: what comes back, which names are accepted, and files that must be refused, each with
its message, exit code 4 and no file left. Uses no library that reads safetensors.

    weights.py TOOLS_DIRECTORY"""
import copy
import gzip
import json
import os
import random
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import (INVALID, TEXT, Tools, check, finish, header_of, join_safetensors, json_lines, must, read_json,
                     read_safetensors, refused, safetensors, scratch, write_json)

tool = Tools(sys.argv[1])
SIZES = ["--layers", "2", "--width", "32", "--heads", "2", "--vocab", "256", "--context", "32", "--batch",
         "1", "--seq", "16"]
FAMILIES = {"gpt2": "wte.weight", "llama": "model.embed_tokens.weight",
            "bert": "bert.embeddings.word_embeddings.weight", "encdec": "model.shared.weight"}


def assemble(header, tensors):
    return join_safetensors(header, b"".join(data for _, _, data in tensors.values()))


def train(*options):
    return tool("run", "model.plan", "--text", TEXT, "--steps", 1, "--threads", 1, "--json", *options)


def losses(done):
    return [line["loss_hash"] for line in json_lines(done)]


def attempt(work, what, contents, message):
    """`message`: a regular expression that the whole message matches, None: accepted."""
    (work / "in.safetensors").write_bytes(contents)
    before = sorted(work.iterdir())
    done = train("--init", "in.safetensors", "--save-weights", "out.safetensors")
    if message is None:
        ok = done.returncode == 0
        (work / "out.safetensors").unlink(missing_ok=True)
    else:
        line = f"remat-run: error: in\\.safetensors: {message}\n"
        ok = done.returncode == INVALID and re.fullmatch(line, done.stderr) and not done.stdout
        ok = ok and sorted(work.iterdir()) == before
    check(ok, f"{what}: exit code {done.returncode}, {done.stderr!r}, expected {message!r}")


def comes_back(work, family):
    """Trained weights, loaded, are the same bytes; the data are not touched on the way."""
    must(train("--lr=1e-2", "--save-weights", "trained.safetensors"))
    done = must(train("--init", "trained.safetensors", "--save-initial-weights", "again.safetensors"))
    check(read_safetensors("trained.safetensors") == read_safetensors("again.safetensors"), f"{family}: weights change on their way")
    check(losses(done) != losses(must(train())), f"{family}: the loss does not depend on --init")


def renamed(tensors, change):
    return {change(name): tensor for name, tensor in tensors.items()}


def names(work, family, tensors):
    """Names that Hugging Face's checkpoints have besides ours."""
    table = FAMILIES[family]
    zeros, ones = bytes(4 * 256), struct.pack("<f", 1) * 256

    def extra(name, shape, data, message=None, dtype="F32"):
        more = dict(tensors, **{name: (dtype, shape, data)})
        attempt(work, f"{family}, {name}", safetensors(more, format="pt"), message)

    def tied(name, other=table):
        _, shape, data = tensors[other]
        extra(name, shape, data)
        wrong = bytes([data[0] ^ 1]) + data[1:]
        extra(name, shape, wrong, f'tensor "{re.escape(name)}" differs from "{re.escape(other)}", .*')
        for order in (1, -1):
            in_shards(order, {name: ("F32", shape, data)}, None)
            in_shards(order, {name: ("F32", shape, wrong)}, f'tensor "{name}" differs from "{other}", ')

    def in_shards(order, more, message):
        shards = {"whole.safetensors": tensors, "more.safetensors": more}
        for path, held in shards.items():
            (work / path).write_bytes(safetensors(held, format="pt"))
        done = train("--init", *list(shards)[::order])
        wanted = f"remat-run: error: more.safetensors: {message}" if message else ""
        check(done.returncode == (INVALID if message else 0) and done.stderr.startswith(wanted),
              f"{family}, {list(more)} in a shard: expected {message!r}")
        for path in shards:
            (work / path).unlink()

    if family == "gpt2":
        prefixed = renamed(tensors, "transformer.{}".format)
        attempt(work, "gpt2, prefixed", safetensors(prefixed, format="pt"), None)
        extra("h.0.attn.bias", [1, 1, 4, 4], bytes(16), dtype="BOOL")
        extra("transformer.h.1.attn.masked_bias", [], bytes(4))
        extra("transformer.wte.weight", *tensors[table][1:], 'parameter "wte.weight" is there twice')
        tied("lm_head.weight")
        tied("transformer.lm_head.weight")
    if family == "llama":
        extra("model.layers.0.self_attn.rotary_emb.inv_freq", [16], bytes(64))
    if family == "bert":
        old = renamed(tensors, lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma")
                      .replace("LayerNorm.bias", "LayerNorm.beta"))
        attempt(work, "bert, old names", safetensors(old, format="pt"), None)
        extra("bert.embeddings.position_ids", [1, 32], bytes(8 * 32), dtype="I64")
        extra("bert.pooler.dense.bias", [32], ones[:128])
        extra("cls.seq_relationship.bias", [2], ones[:8])
        tied("cls.predictions.decoder.weight")
        tied("cls.predictions.decoder.bias", "cls.predictions.bias")
    if family == "encdec":
        tied("model.encoder.embed_tokens.weight")
        extra("model.decoder.embed_positions.weight", [32, 32], bytes(4096))
        extra("final_logits_bias", [1, 256], zeros)
        extra("final_logits_bias", [1, 256], ones, 'tensor "final_logits_bias" is not all zeros, .*')
    extra("strange.weight", [256], ones, 'tensor "strange.weight", F32 \\[256\\], is no parameter of the plan')


def contents(work, tensors):
    """Well-formed files that do not fit the plan."""
    name = next(iter(tensors))
    dtype, shape, data = tensors[name]
    quoted = f'tensor "{re.escape(name)}"'

    def change(what, tensor, message):
        changed = {key: value for key, value in dict(tensors, **{name: tensor}).items() if value}
        attempt(work, what, safetensors(changed, format="pt"), message)

    change("missing", None, f"{quoted}, F32 \\[256, 32\\] in the plan, is missing")
    change("transposed", (dtype, shape[::-1], data),
           f"{quoted} has shape \\[32, 256\\], in the plan it has \\[256, 32\\]")
    change("flat", (dtype, [256 * 32], data),
           f"{quoted} has shape \\[8192\\], in the plan it has \\[256, 32\\]")
    change("integers", ("I32", shape, data), f"{quoted} is of dtype I32 \\(accepted: F32, BF16, F16\\)")
    halves = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))  # the upper ones: little-endian f32
    change("bf16", ("BF16", shape, halves), None)


def halves(work, tensors):
    """Every finite half comes back as the f32 that Python says it is, but for those that find no room."""
    patterns = [p for p in range(1 << 16) if p >> 10 & 31 != 31]
    random.Random(1).shuffle(patterns)
    packed, exact = {}, {}
    for name, (_, shape, data) in tensors.items():
        drawn = struct.pack(f"<{len(data) // 4}H", *(patterns.pop() for _ in range(len(data) // 4)))
        packed[name] = ("F16", shape, drawn)
        exact[name] = ("F32", shape, struct.pack(f"<{len(drawn) // 2}f", *struct.unpack(f"<{len(drawn) // 2}e", drawn)))
    (work / "halves.safetensors").write_bytes(safetensors(packed, format="pt"))
    train("--eval", "--init", "halves.safetensors", "--save-initial-weights", "exact.safetensors")
    check(read_safetensors("exact.safetensors") == exact, "F16: the parameters are not the file's values")


def hostile(work, tensors):
    good = header_of(tensors, format="pt")
    name, other = list(tensors)[:2]
    quoted = f'tensor "{re.escape(name)}"'
    whole = assemble(good, tensors)

    def header(what, change, message):
        changed = copy.deepcopy(good)
        change(changed)
        attempt(work, what, assemble(changed, tensors), message)

    def entry(what, key, value, message):
        header(what, lambda h: h[name].update({key: value}), f"{quoted}: {message}")

    data_bytes = sum(len(data) for _, _, data in tensors.values())
    for length in (0, 7):
        attempt(work, f"{length} bytes", whole[:length], f"not a safetensors file: it has {length} bytes")
    attempt(work, "a header that is cut off", struct.pack("<Q", len(whole)) + whole[8:],
            f"cut off, or not a safetensors file: a header of {len(whole)} bytes in a file of {len(whole)}")
    for length in (0, 10**8 + 1, 2**63, 2**64 - 1):
        attempt(work, f"a header of {length} bytes", struct.pack("<Q", length) + whole[8:],
                r"not a safetensors file: it does not begin with the length of a header \(1 to 100000000 bytes\)")
    attempt(work, "cut", whole[:-1], f'tensor "{re.escape(list(tensors)[-1])}": its data ends at '
            f"{data_bytes} of {data_bytes - 1} bytes")
    attempt(work, "longer", whole + b"x", "1 bytes of data at its end belong to no tensor")
    for text in (b"{", b"\xff\xff", b'{"a":1,"a":2}', b"[" * 5000, b'{"\\u0000":1}', b'{"a":1e999}'):
        attempt(work, f"JSON {text[:20]}", assemble(text, tensors), "header, byte [0-9]+: .*")
    attempt(work, "JSON array", assemble(b"[]", tensors), "the header is not a JSON object")
    attempt(work, "no tensors", assemble(b"{}", {}), ".*is missing, with 27 more")
    header("control characters", lambda h: h.update({"a\x1b[31m": h.pop(name)}),
           "a tensor's name has control characters")
    for value in ("F99", 7, None):
        entry("dtype", "dtype", value, '"dtype" is missing or unknown')
    header("entry", lambda h: h.update({name: 5}), f'{quoted}: "dtype" is missing or unknown')
    for value in (None, 3, [1] * 7):
        entry("shape", "shape", value, '"shape" is not an array of at most 6 numbers')
    for value in ([-1, 32], ["a"], [2**62, 2**62], [1.5]):
        entry("axis", "shape", value, "axis [01] of its shape is out of range")
    for value in (None, [], [0], [0, 1, 2], [-4, 0], [8, 4], [0.5, 4], "04"):
        entry("data_offsets", "data_offsets", value, '"data_offsets" is not an interval')
    entry("outside", "data_offsets", [0, 2**62], f"its data ends at {2**62} of {data_bytes} bytes")
    entry("short", "data_offsets", [0, 4], "4 bytes of data, but F32 \\[256, 32\\] takes 32768")
    header("overlap", lambda h: h[other].update(data_offsets=[0, len(tensors[other][2])]),
           f'tensors "{re.escape(other)}" and {quoted[7:]} overlap')
    header("hole", lambda h: h.pop(other), f'{len(tensors[other][2])} bytes of data before tensor ".*" belong '
           "to no tensor")


def bare(work, family, tensors):
    """Files of the model without head have neither its prefix nor the head: what is missing is said."""
    body = {"bert": "bert.", "llama": "model.", "encdec": "model.", "gpt2": ""}[family]
    whole = {"bert": "BertForMaskedLM", "llama": "AutoModelForCausalLM"}.get(family)
    head = [name for name in tensors if not name.startswith(body)]
    renamed_all = {name.removeprefix(body): tensor for name, tensor in tensors.items()}
    attempt(work, f"{family}, without prefix", safetensors(renamed_all, format="pt"), None)
    without = {name.removeprefix(body): tensor for name, tensor in tensors.items() if name not in head}
    if family == "bert":
        without["pooler.dense.bias"] = ("F32", [32], bytes(128))
    more = f", with {len(head) - 1} more" if len(head) > 1 else ""
    attempt(work, f"{family}, without head", safetensors(without, format="pt"), head and
            f'tensor "({"|".join(map(re.escape, head))})", F32 .* in the plan, is missing{more}: all of the head: '
            f"save the model as {whole}, not as AutoModel" or None)
    if head:  # of a model that was saved whole, its prefix is there
        kept = {name: tensor for name, tensor in tensors.items() if name not in head}
        attempt(work, f"{family}, with prefix, without head", safetensors(kept, format="pt"), f"tensor .* is missing{more}: " + (
            'the file\'s model has "model.embed_tokens.weight" as its head: make the graph of its config.json, with '
            '"tie_word_embeddings": true' if family == "llama" else f"all of the head: save the model as {whole}"))
    last = list(without)[-1 if family != "bert" else -2]
    without.pop(last)
    attempt(work, f"{family}, without {last}", safetensors(without, format="pt"),
            rf'tensor ".*", F32 .* in the plan, is missing(, with {len(head)} more)?')


def sources(work, tensors):
    """An index of shards, folders, and what else is called a model's weights."""
    def refuse(path, message, code=INVALID, *options):
        before = sorted(work.rglob("*"))
        done = train("--init", path, *options)
        refused(done, code, re.compile(message), path)
        check(not done.stdout and sorted(work.rglob("*")) == before, path)

    names = list(tensors)
    hub = work / "hub"
    hub.mkdir()
    parts = [{name: tensors[name] for name in names[k::3]} for k in range(3)]
    shards = [f"model-0000{k + 1}-of-00003.safetensors" for k in range(3)]
    for shard, part in zip(shards, parts):
        (hub / shard).write_bytes(safetensors(part, format="pt"))
    index = {"metadata": {"total_size": 1}, "weight_map": {name: shards[k % 3] for k, name in enumerate(names)}}
    write_json(hub / "model.safetensors.index.json", index)
    write_json(hub / "config.json", {"model_type": "gpt2"})
    (work / "one.safetensors").write_bytes(safetensors(tensors, format="pt"))
    expected = losses(must(train("--init", "one.safetensors")))
    for path in "hub", "hub/", "hub/model.safetensors.index.json", work / "hub", "./hub/../hub/model.safetensors.index.json":
        check(losses(must(train("--init", path))) == expected, path, "gives others")
    done = tool("run", "../model.plan", "--text", TEXT, "--steps", 1, "--json", "--init", "model.safetensors.index.json", cwd=hub)
    check(losses(must(done)) == expected, "from its folder")
    refuse("hub", r"--save-weights 'hub/.*' is the same file as --init 'hub/.*'", 2, "--save-weights", f"hub/{shards[1]}")
    refuse("hub/config.json", 'hub/config.json: no index of weights: it has no "weight_map"')
    index_path = "hub/model.safetensors.index.json"
    (hub / shards[2]).rename(work / "away")
    refuse("hub", rf"{index_path}: files missing: 1 of 3, first hub/{shards[2]}", 5)
    (work / "away").rename(hub / shards[2])
    for name in ("../one.safetensors", "/etc/passwd", "", ".", "..", 7, None, ["x"]):
        index["weight_map"][names[1]] = name
        write_json(hub / "model.safetensors.index.json", index)
        refuse("hub", f'{index_path}: tensor "{re.escape(names[1])}": its file is not the name of one in this folder')
    for text, message in (("{", ":1: bad JSON"), ("[]", ': no index of weights: it has no "weight_map"'),
                          ('{"weight_map": {}}', ': no index of weights: it has no "weight_map"')):
        (hub / "model.safetensors.index.json").write_text(text)
        refuse("hub", index_path + message)
    (hub / "model.safetensors").write_bytes((work / "one.safetensors").read_bytes())
    check(losses(must(train("--init", "hub"))) == expected, "model.safetensors comes before an index")
    refuse("hub", r"--save-weights 'hub/model.safetensors' is the same file as --init 'hub/model.safetensors'", 2, "--save-weights", "hub")
    empty = work / "empty"
    empty.mkdir()
    refuse("empty", "empty: a folder without model.safetensors, model.safetensors.index.json or adapter_model.safetensors")
    (empty / "model.safetensors").symlink_to("nowhere")
    refuse("empty", "empty/model.safetensors: No such file or directory", 5)
    (empty / "model.safetensors").unlink()
    (empty / "pytorch_model.bin").write_bytes(b"PK\3\4" + bytes(500))
    refuse("empty", "empty/pytorch_model.bin: no safetensors: load the model and write them, as save_pretrained.*")
    must(train("--checkpoint", "c"))
    refuse("c", "c: it has checkpoints of a run, with which --resume goes on")
    refuse("c/step-0000000001.safetensors", r".*: tensor \".*\", F32 .*, is no parameter of the plan: it is of a checkpoint, .*")
    convert = "load it and write safetensors, as save_pretrained\\(\\) of transformers does"
    for data, message in ((b"PK\3\4\0\0\x08\x08\0\0" + bytes(600), f"a zip archive, as PyTorch's .*: {convert}"),
                          (bytes.fromhex("80028a0a6cfc9c46f9206aa850192e") + bytes(600), f"PyTorch's older format, a pickle: {convert}"),
                          (b"GGUF\3\0\0\0" + bytes(600), "GGUF: take the safetensors that it was made from"),
                          (b"\x93NUMPY\1\0v\0" + bytes(600), f"a NumPy array with a header: {convert}"),
                          (b"\x89HDF\r\n\x1a\n" + bytes(600), f"HDF5: {convert}"),
                          (struct.pack("<II", 20240326, 3) + bytes(600), f"a checkpoint of llm.c: {convert}"),
                          (gzip.compress(bytes(1000)) * 9, "gzip: unpack it first"),
                          (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a pointer of Git LFS: .*"),
                          (b"<!DOCTYPE html><title>404</title>", "a page in HTML: download the file itself"),
                          (b"Entry not found", "a text"), (json.dumps(index).encode(), "a text")):
        attempt(work, message, data, f"not a safetensors file: {message}")


def folders(work):
    """model.safetensors and config.json, of which remat-graph makes the same graph."""
    def text(*arguments):
        lines = tool.text("graph", *arguments, *SIZES[-4:], "--name", "x", "--text").splitlines()
        return [line for line in lines if not line.startswith("config ")]

    must(train("--save-weights", "alone.safetensors"))
    (work / "there").mkdir()
    for name, path in ("new", "new//"), ("there", "there"):
        must(train("--save-weights", path))
        found = {file.name for file in (work / name).iterdir()}
        check(found == {"model.safetensors", "config.json"}, path, found)
        check((work / name / "model.safetensors").read_bytes() == (work / "alone.safetensors").read_bytes(), path, "weights")
    config = read_json(work / "new/config.json")
    check(config["architectures"] == ["GPT2LMHeadModel"] and config["dtype"] == config["torch_dtype"] == "float32", config)
    check(text("new/config.json") == text("gpt2", *SIZES[:-4]), "another graph")

    def refuse(code, message, *options, plan="model.plan"):
        before = sorted(work.iterdir())
        refused(tool("run", plan, *options), code, message, *options)
        check(sorted(work.iterdir()) == before, *options)

    refuse(5, "nowhere: No such file", "--text", "nowhere", "--save-weights", "other/")
    refuse(5, "no/where/: cannot be made: No such file", "--text", TEXT, "--save-weights", "no/where/")
    refuse(2, "is the same file as --report 'there/config.json'", "--text", TEXT, "--save-weights", "there", "--report",
           "there/config.json")
    refuse(8, "is not finite", "--text", TEXT, "--save-weights", "other/", "--lr", 1e30, "--steps", 4)
    for what in ("mlp-tiny", "\"[1]\"", "\"{\"", None):
        if what == "mlp-tiny":
            tool.must("graph", what, "-o", "other.fbs")
        else:
            lines = tool.text("dump", "model.fbs", "--text").splitlines()
            (work / "other.fbs").write_text("\n".join(lines[:-1] + ([f"config {what}"] if what else [])) + "\n")
        tool.must("compile", "other.fbs", "-o", "other.plan")
        refuse(4, "other/: the plan's graph has no config.json of its model", "--text", TEXT, "--save-weights", "other/",
               plan="other.plan")


def nowhere(work):
    """GPT-2 as Hugging Face's library does not have it: weights go, as nanoGPT names them, config.json does not."""
    for options, shape in ((["--no-bias"], [96, 32]), (["--kv-heads", 1], [32, 64])):
        tool.must("graph", "gpt2", *SIZES, *options, "-o", "model.fbs")
        tool.must("compile", "model.fbs", "-o", "model.plan")
        must(train("--save-weights", "own.safetensors"))
        tensors = read_safetensors("own.safetensors")
        named = renamed({**tensors, "lm_head.weight": tensors["wte.weight"]}, "transformer.{}".format)
        attempt(work, f"{options}", safetensors(named, format="pt"), None)
        done = train("--save-weights", "folder/")
        refused(done, INVALID, "has no config.json of its model")
        check(not (work / "folder").exists(), options)
        check(tensors["h.1.attn.c_attn.weight"][1] == shape and ("ln_f.bias" in tensors) == (shape[0] == 32), options, sorted(tensors))


def main():
    for family in FAMILIES:
        with scratch() as work:
            kv = ["--hidden", "64"] if family == "llama" else []
            tool.must("graph", family, *SIZES, *kv, "-o", "model.fbs")
            tool.must("compile", "model.fbs", "-o", "model.plan")
            comes_back(work, family)
            tensors = read_safetensors("trained.safetensors")
            tensors = {name: tensors[name] for name in sorted(tensors, key=lambda n: n != FAMILIES[family])}
            names(work, family, tensors)
            bare(work, family, tensors)
            if family == "gpt2":
                sources(work, tensors)
                contents(work, tensors)
                halves(work, tensors)
                folders(work)
                nowhere(work)
                hostile(work, tensors)
                done = train("--init", "absent.safetensors")
                check(done.returncode == 5, f"absent file: exit code {done.returncode}")
    finish()


main()
