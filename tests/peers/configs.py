# SPDX-License-Identifier: Apache-2.0
"""Configurations of transformers, and remat-graph:

    configs.py BUILD_DIRECTORY

1. The default config.json of 48 model types. One that is accepted gives a graph with all parameters of
   transformers' model and no others; one that is not is told its model type and those that are accepted.
2. Loss and gradients of the accepted ones with small sizes, and of variants of them, are those of
   transformers' models from the same random weights, in fp32, within the limits of docs/testing.md.

Exit code 0: all of that, 1: not, 77: PyTorch or transformers is absent (1 when CI=true)."""
import pathlib
import re
import sys
import tempfile
from types import SimpleNamespace

import checkpoints  # which skips where something is absent
import compare_gradients
import torch
import transformers
from safetensors.torch import load_file

SEQ = checkpoints.SEQ
LIMITS = SimpleNamespace(gradient_limit=1e-5, gradient_floor=1e-6)
TYPES = """gpt2 gpt_bigcode llama mistral qwen2 qwen3 phi3 bert marian
    albert bart bloom camembert codegen cohere deberta-v2 deepseek_v3 distilbert electra falcon gemma gemma2
    gemma3_text glm gpt_neo gpt_neox gpt_oss gptj granite m2m_100 mamba mbart ministral mixtral
    modernbert nemotron olmo2 opt pegasus phi qwen2_moe qwen3_moe roberta smollm3 stablelm starcoder2 t5
    xlm-roberta""".split()

IDS = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LLAMA = {**IDS, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}
ACCEPTED = {  # model type: transformers' class, sizes, the family of remat-graph
    "gpt2": ("GPT2LMHeadModel", {**IDS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}, "gpt2"),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", {**IDS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}, "gpt2"),
    "llama": ("LlamaForCausalLM", LLAMA, "llama"),
    "mistral": ("MistralForCausalLM", LLAMA, "llama"),
    "qwen2": ("Qwen2ForCausalLM", LLAMA, "llama"),
    "qwen3": ("Qwen3ForCausalLM", LLAMA, "llama"),
    "phi3": ("Phi3ForCausalLM", LLAMA, "llama"),
    "bert": ("BertForMaskedLM", {**IDS, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
                                 "num_attention_heads": 4, "max_position_embeddings": 64}, "bert"),
    "marian": ("MarianMTModel", {
        "vocab_size": 256, "decoder_vocab_size": 256, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
        "decoder_start_token_id": 0, "forced_eos_token_id": None, "d_model": 64, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 112,
        "decoder_ffn_dim": 112, "max_position_embeddings": 64}, "encdec"),
}
VARIANTS = [  # model type, what is not the default
    ("llama", {"attention_bias": True, "mlp_bias": True}),
    ("llama", {"head_dim": 24, "tie_word_embeddings": True}),
    ("mistral", {"head_dim": 8, "sliding_window": SEQ}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": SEQ, "max_window_layers": 1}),
    ("qwen3", {"attention_bias": True, "head_dim": 16, "tie_word_embeddings": True}),
    ("phi3", {"num_key_value_heads": 4, "sliding_window": SEQ}),
    ("marian", {"scale_embedding": True, "activation_function": "swish"}),
    ("llama", {"hidden_act": "gelu"}), ("qwen2", {"hidden_act": "gelu_pytorch_tanh"}),
    ("phi3", {"hidden_act": "sigmoid"}), ("bert", {"hidden_act": "gelu_new"}), ("bert", {"hidden_act": "silu"}),
    *(("gpt2", {"activation_function": name}) for name in (
        "gelu_python", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "relu", "tanh")),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True}),
    ("gpt2", {"scale_attn_weights": False}),
    ("gpt_bigcode", {"multi_query": False, "n_inner": 112}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 5e5}}),
    ("bert", {"type_vocab_size": 5}),
]


def parameters(model):
    """Name in a graph -> parameter."""
    return {name.removeprefix("transformer."): parameter for name, parameter in model.named_parameters()
            if parameter.requires_grad}


def check_default(tools, model_type):
    config = transformers.AutoConfig.for_model(model_type)
    path = tools.work / "config.json"
    path.write_text(config.to_json_string(), encoding="utf-8")
    if model_type not in ACCEPTED:
        message = tools.run("graph", path, "--text", fails=True).stderr
        wanted = [f'model_type is "{model_type}": ', " (accepted: " + ", ".join(ACCEPTED), "docs/ir.md"]
        return [f"the message lacks {text}: {message}" for text in wanted if text not in message]
    text = tools.run("graph", path, "--text").stdout
    ours = {name: [int(length) for length in shape.split(",")]
            for name, shape in re.findall(r"^parameter %(\S+) : f32\[([\d,]+)\]", text, re.M)}
    with torch.device("meta"):
        theirs = parameters(getattr(transformers, ACCEPTED[model_type][0])(config))
    theirs = {name: list(parameter.shape) for name, parameter in theirs.items()}
    return [] if ours == theirs else [
        f"{name}: ours {ours.get(name)}, theirs {theirs.get(name)}" for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)]


def check_gradients(tools, model_type, changes):
    class_name, sizes, family = ACCEPTED[model_type]
    config = transformers.AutoConfig.for_model(model_type, **{**sizes, **changes}, attn_implementation="eager")
    theirs = getattr(transformers, class_name)(config).eval()
    checkpoints.randomise(theirs)
    theirs.save_pretrained(tools.work)
    tools.compile(tools.work / "config.json", family, "fp32", "--dropout", 0)
    ours, = tools.train(tools.work / "model.safetensors", 1, "--save-gradients", "gradients.safetensors")
    loss = checkpoints.forward(theirs, family, 1)
    loss.backward()
    grads = {name: parameter.grad for name, parameter in parameters(theirs).items()}
    rows = compare_gradients.gradient_rows(
        compare_gradients.load_like(tools.work / "gradients.safetensors", grads), grads, LIMITS)
    worst = max(value / limit if value == value else float("inf") for _, value, limit in rows)
    off = abs(ours - loss.item()) / loss.item()
    print(f"{model_type} {changes or 'as it is'}: loss off by {off:.1e}, gradients {worst:.2f} of the limit")
    faults = [f"{name}: gradients differ by {value:.2e}, limit {limit:.2e}" for name, value, limit in rows
              if not value <= limit]
    return faults if off <= checkpoints.LIMITS["fp32"] else [*faults, f"loss {ours}, theirs {loss.item()}"]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    assert len(set(TYPES)) == 48
    cases = [(check_default, (model_type,)) for model_type in TYPES]
    cases += [(check_gradients, (model_type, {})) for model_type in ACCEPTED]
    cases += [(check_gradients, variant) for variant in VARIANTS]
    failed = 0
    for check, case in cases:
        with tempfile.TemporaryDirectory() as work:
            faults = check(checkpoints.Tools(sys.argv[1], pathlib.Path(work)), *case)
        failed += bool(faults)
        for fault in faults:
            print(f"FAILED: {case}: {fault}")
    print(f"{len(cases)} cases, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
