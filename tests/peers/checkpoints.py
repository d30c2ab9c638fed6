# SPDX-License-Identifier: Apache-2.0
"""Weights go to Hugging Face's models and come back, and the losses agree:

    checkpoints.py BUILD_DIRECTORY FAMILY...

1. A model of Hugging Face's is saved with its config.json; remat-graph makes the model from that file,
   remat-run --init takes the weights, in shards and from a folder. Our first loss is theirs.
2. We train some steps and save weights and config.json; Hugging Face's model loads them, none missing, none left.
   Its loss on the next step's data is ours. The same of a preset's model, whose class the file tells.
3. What no parameter of the plan has (tied copies, buffers, other heads) is accepted or refused as
   tools/run/families.h says.

Exit code 0: equal within the limits, 1: not, 77: PyTorch or transformers is absent (1 when CI=true)."""
import argparse
import json
import math
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness
try:
    import torch
    import transformers
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    import feed
except ModuleNotFoundError as error:
    in_ci = os.environ.get("CI") == "true"
    print(f"{'FAILED' if in_ci else 'SKIP'}: {error}: run tools/setup.sh --with-torch")
    sys.exit(1 if in_ci else 77)

BATCH, SEQ, SOURCE_SEQ, STEPS = 3, 48, 64, 3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Relative; docs/testing.md has what is measured.
LIMITS = {"fp32": 1e-6, "bf16": 5e-4}


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=128, n_embd=64, n_layer=3, n_head=4, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=0, eos_token_id=0))


def bigcode():
    return transformers.GPTBigCodeForCausalLM(transformers.GPTBigCodeConfig(
        vocab_size=256, n_positions=128, n_embd=64, n_layer=3, n_head=4, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=0, eos_token_id=0))


LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def llama(name="Llama", **changes):
    """Llama or a relative."""
    config = getattr(transformers, f"{name}Config")(
        vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        bos_token_id=0, eos_token_id=0, pad_token_id=None, **changes)
    return getattr(transformers, f"{name}ForCausalLM")(config)


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=256, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=256, max_position_embeddings=128, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0))


def encdec():
    return transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=256, d_model=64, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256,
        max_position_embeddings=128, activation_function="relu", scale_embedding=True, dropout=0,
        attention_dropout=0, activation_dropout=0, pad_token_id=0, eos_token_id=0,
        decoder_start_token_id=0, forced_eos_token_id=None))


FAMILIES = {"gpt2": (gpt2, "gpt2"), "gpt_bigcode": (bigcode, "gpt2"), "llama": (llama, "llama"),
            "llama_tied": (lambda: llama(tie_word_embeddings=True), "llama"),
            "llama_rope": (lambda: llama(rope_parameters=LLAMA3), "llama"),
            "llama_theta": (lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 5e5}), "llama"),
            "mistral": (lambda: llama("Mistral", sliding_window=SEQ, head_dim=24), "llama"),
            "qwen2": (lambda: llama("Qwen2", tie_word_embeddings=True), "llama"),
            "qwen3": (lambda: llama("Qwen3", head_dim=24), "llama"),
            "phi3": (lambda: llama("Phi3"), "llama"),
            "phi3_partial": (lambda: llama("Phi3", rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                                                    "partial_rotary_factor": 0.5}), "llama"),
            "bert": (bert, "bert"),
            "encdec": (encdec, "encdec")}


def randomise(model):
    """Norms and biases too, so that none of them may be left out unseen."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if not name.endswith("embed_positions.weight"):
                param.add_(torch.randn(param.shape, generator=generator) * 0.05)


def forward(model, family, step, vocab=256):
    """Their loss of a step."""
    ids = feed.inputs(family, feed.read_text(harness.TEXT), step, BATCH, SEQ, SOURCE_SEQ, vocab)
    if family == "encdec":
        logits = model(input_ids=ids["source"], decoder_input_ids=ids["tokens"]).logits
    else:
        logits = model(input_ids=ids["tokens"]).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids["targets"].flatten())


def loss_of(model, family, step):
    with torch.no_grad():
        return forward(model, family, step).item()


class Tools(harness.Tools):
    def __init__(self, build, work):
        super().__init__(build, cwd=work)
        self.work = work

    def run(self, *command, fails=False):
        done = self(*command)
        return harness.must(done, tuple(range(1, 10)) if fails else 0)

    def compile(self, config, family, dtype, *options):
        source = ["--source-seq", SOURCE_SEQ] if family == "encdec" else []
        self.run("graph", config, "--batch", BATCH, "--seq", SEQ, *source, "--dtype", dtype,
                 *options, "-o", "model.fbs")
        self.run("compile", "model.fbs", "-o", "model.plan")

    def train(self, weights, steps, *options):
        """Losses of steps 1, 2, ..."""
        done = self.run("run", "model.plan", "--text", harness.TEXT, "--init", weights, "--steps", steps,
                        "--json", *options)
        return [json.loads(line)["loss"] for line in done.stdout.splitlines()]


def check_loss(what, ours, theirs, limit):
    off = abs(ours - theirs) / abs(theirs)
    print(f"{what}: ours {ours:.8f}, theirs {theirs:.8f}, relative {off:.2e}, limit {limit:.0e}")
    if not off <= limit:
        sys.exit("FAILED")


def load_exactly(model_class, path, dtype):
    """A model of theirs with all weights from the file, and all of the file used, in the dtype of the file."""
    model, info = model_class.from_pretrained(path, dtype="auto", output_loading_info=True)
    if model.dtype != dtype:
        sys.exit(f"FAILED: {path}: it is loaded as {model.dtype}")
    troubles = {key: value for key, value in info.items() if value}
    # Buffers that are computed or zero, not weights.
    missing = {name for name in troubles.pop("missing_keys", ())
               if name != "final_logits_bias" and not name.endswith("embed_positions.weight")}
    if missing or troubles:
        sys.exit(f"FAILED: {path}: missing {missing}, {troubles}")
    return model.eval()


def there_and_back(tools, maker, family, dtype):
    work = tools.work
    theirs = maker().eval()
    randomise(theirs)
    theirs.to(DTYPES[dtype]).save_pretrained(work / "theirs")
    tools.compile(work / "theirs/config.json", family, dtype)
    theirs.save_pretrained(work / "shards", max_shard_size="100KB")
    if not (work / "shards/model.safetensors.index.json").exists():
        sys.exit("FAILED: one shard")
    losses = tools.train(work / "shards", STEPS + 1, "--save-initial-weights", work / "same.safetensors")
    check_loss(f"{dtype}, their weights here", losses[0], loss_of(theirs, family, 1), LIMITS[dtype])
    before, ours = load_file(work / "theirs/model.safetensors"), load_file(work / "same.safetensors")
    for name, tensor in ours.items():
        given = before[name] if name in before else before[f"transformer.{name}"]
        if tensor.dtype != given.dtype or not torch.equal(tensor, given):
            sys.exit(f"FAILED: {name} is not what was loaded")

    tools.train(work / "theirs", STEPS, "--save-weights", f"{work}/ours/")
    trained = load_exactly(type(maker()), work / "ours", DTYPES[dtype])
    check_loss(f"{dtype}, our weights there", losses[STEPS], loss_of(trained, family, STEPS + 1), LIMITS[dtype])


def preset(tools, family, options=()):
    """Nothing but what remat-graph knows of a preset; graph from the config.json that comes with the weights."""
    work = tools.work
    source = ["--source-seq", SOURCE_SEQ] if family == "encdec" else []
    tools.run("graph", f"{family}-tiny", "--batch", BATCH, "--seq", SEQ, *source, *options, "-o", "model.fbs")
    tools.run("compile", "model.fbs", "-o", "model.plan")
    train = ["run", "model.plan", "--text", harness.TEXT, "--json", "--lr", 1e-2, "--steps"]
    tools.run(*train, STEPS, "--save-weights", "preset/")
    losses = [json.loads(line)["loss"] for line in tools.run(*train, STEPS + 1).stdout.splitlines()]
    name = json.loads((work / "preset/config.json").read_text())["architectures"][0]
    trained = load_exactly(getattr(transformers, name), work / "preset", torch.float32)
    check_loss(f"preset {family} {options}", losses[STEPS], loss_of(trained, family, STEPS + 1), LIMITS["fp32"])
    tools.compile(work / "preset/config.json", family, "fp32")
    loss = tools.train(work / "preset/model.safetensors", 1, "--eval")[0]
    tools.run("run", "model.plan", "--text", harness.TEXT, "--init", work / "preset/model.safetensors", "--steps", 1,
              "--save-weights", "again/")
    config, again = ((work / folder / "config.json").read_text() for folder in ("preset", "again"))
    if config != again or not math.isfinite(loss):
        sys.exit(f"FAILED: config.json, read and written:\n{config}\n{again}")


def smaller(tools, name):
    """Of a class's default configuration a model with fewer layers and tokens, which the library can make."""
    config = getattr(transformers, f"{name}Config")(num_key_value_heads=2, head_dim=16, eos_token_id=[7, 999])
    (tools.work / "default.json").write_text(config.to_json_string(use_diff=False))
    tools.compile("default.json", "llama", "fp32", "--layers", 2, "--vocab", 256, "--width", 32, "--heads", 2,
                  "--hidden", 64)
    tools.run("run", "model.plan", "--text", harness.TEXT, "--steps", 1, "--save-weights", "smaller/")
    model = load_exactly(getattr(transformers, f"{name}ForCausalLM"), tools.work / "smaller", torch.float32)
    if (model.config.eos_token_id, model.config.num_hidden_layers) != ([7], 2):
        sys.exit(f"FAILED: {name}: {model.config}")


def across_dtypes(tools, maker, family):
    """fp32 weights in a bf16 plan are its masters; bf16 weights in an fp32 plan are exact."""
    work = tools.work
    exact = load_file(work / "theirs/model.safetensors")
    rounded = {name: tensor.bfloat16() for name, tensor in exact.items()}
    save_file(rounded, work / "rounded.safetensors")
    save_file({name: tensor.float() for name, tensor in rounded.items()}, work / "widened.safetensors")
    wide, narrow = (tools.train(work / f"{name}.safetensors", 2) for name in ("widened", "rounded"))
    if wide != narrow:
        sys.exit(f"FAILED: bf16 weights in fp32: {narrow}, the same in fp32: {wide}")
    tools.compile(work / "theirs/config.json", family, "bf16")
    tools.train(work / "theirs/model.safetensors", 1, "--lr", 0, "--save-initial-weights",
                work / "first.safetensors", "--save-weights", work / "after.safetensors")
    first, after = load_file(work / "first.safetensors"), load_file(work / "after.safetensors")
    for name, tensor in first.items():
        given = exact[name] if name in exact else exact[f"transformer.{name}"]
        # A step with learning rate 0 rounds the masters anew: had they not been written, they would
        # have the values of the initialiser.
        if not torch.equal(tensor, given.bfloat16()) or not torch.equal(after[name], tensor):
            sys.exit(f"FAILED: {name}: not the rounded fp32 weights")
    masters = tools.train(work / "theirs/model.safetensors", 3, "--lr", 1e-4)
    without = tools.train(work / "rounded.safetensors", 3, "--lr", 1e-4)
    if masters[0] != without[0] or masters[1:] == without[1:]:
        sys.exit(f"FAILED: masters from fp32 weights: {masters}, from bf16 weights: {without}")
    print("fp32 and bf16 files in fp32 and bf16 plans: as they should be")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("families", nargs="+", choices=FAMILIES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.families:
        torch.manual_seed(0)
        maker, family = FAMILIES[name]
        for dtype in DTYPES:
            print(f"{name}:")
            with tempfile.TemporaryDirectory() as work:
                tools = Tools(options.build, pathlib.Path(work))
                there_and_back(tools, maker, family, dtype)
                if dtype == "fp32":
                    across_dtypes(tools, maker, family)
                    if name in ("qwen2", "phi3"):
                        smaller(tools, name.capitalize())
                    if name == family:
                        preset(tools, family)
                        preset(tools, family, ["--layers", 2, "--width", 32, "--heads", 2])
    print("equal within the limits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
