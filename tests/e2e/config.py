# SPDX-License-Identifier: Apache-2.0
"""remat-graph refuses each kind of entry of a config.json that it cannot follow, and names it; files as
Hugging Face's hub has them give models with the published numbers of parameters, with --plan-only and its
mark where a graph leaves out a part of the model. The mark goes into texts and plans, which do not run.

    config.py BUILD_DIRECTORY"""
import json
import math
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INVALID, USAGE, Tools, check, finish, refused, scratch

tool = Tools(sys.argv[1])
LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 512,
         "rms_norm_eps": 1e-5, "hidden_act": "silu"}
LONG = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
        "original_max_position_embeddings": 256}
TYPES = "gpt2, gpt_bigcode, llama, mistral, qwen2, qwen3, phi3, bert, marian"
ACTIVATIONS = ("gelu, gelu_python, gelu_new, gelu_fast, gelu_accurate, gelu_pytorch_tanh, gelu_python_tanh, relu, silu, "
               "swish, sigmoid, tanh")
ROPE = 'null or rope_type "default", "linear" or "llama3"'
ALONE = "; this one with --plan-only, for a plan alone)"
BERT = {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "vocab_size": 300, "max_position_embeddings": 64}
MARIAN = {"model_type": "marian", "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
          "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 300,
          "max_position_embeddings": 512}
GPT2 = {**dict.fromkeys(LLAMA, ...), "model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
        "vocab_size": 300}
BIGCODE = {**GPT2, "model_type": "gpt_bigcode"}
WINDOW = {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 256}
CONFIG = "config.json"
LONGER = ("--seq", "257")
MORE = ("--seq", "600")
CASES = [  # what is changed (... is absent), the message or None where it is accepted, options
    ({}, None),
    ({"num_key_value_heads": None, "rope_scaling": None, "head_dim": None}, None),
    ({"head_dim": 16, "tie_word_embeddings": False, "rope_scaling": LONG}, None),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 1}}, None),
    ({"hidden_size": ...}, "hidden_size is missing (accepted: 1 to 16777216)"),
    ({"hidden_size": 0}, "hidden_size is 0 (accepted: 1 to 16777216)"),
    ({"hidden_size": "64"}, 'hidden_size is "64" (accepted: 1 to 16777216)'),
    ({"vocab_size": 1 << 30}, "vocab_size is 1073741824 (accepted: 1 to 16777216)"),
    ({"vocab_size": 1e3}, "vocab_size is 1000.0 (accepted: 1 to 16777216)"),
    ({"rms_norm_eps": -1}, "rms_norm_eps is -1 (accepted: more than 0, up to 1e+30)"),
    ({"rms_norm_eps": "tiny"}, 'rms_norm_eps is "tiny" (accepted: more than 0, up to 1e+30)'),
    ({"hidden_act": "quick_gelu"}, f'hidden_act is "quick_gelu" (accepted: {ACTIVATIONS})'),
    ({"hidden_act": 3}, f"hidden_act is 3 (accepted: {ACTIVATIONS})"),
    ({"hidden_act": "s" * 200}, "... (accepted: "),
    ({"attention_dropout": 1}, "attention_dropout is 1 (accepted: 0"),
    ({"attention_dropout": "none"}, 'attention_dropout is "none" (accepted: 0'),
    ({"head_dim": 32}, None),
    ({"head_dim": 15}, "--head-size 15, by default --width / --heads, is odd"),
    ({"num_attention_heads": 5, "num_key_value_heads": 1}, "--heads 5 does not divide --width 64"),
    ({"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 16}, None),
    ({"num_key_value_heads": 3}, "num_key_value_heads is 3 (accepted: divisors of num_attention_heads, 4)"),
    ({"max_sequence_length": 64, "transformers.js_config": {"dtype": "q4"}}, None),
    ({"attention_bias": 1}, "attention_bias is 1 (accepted: true, false)"),
    ({"qk_layernorm": True}, "qk_layernorm is true (accepted: absent: this key is unknown; delete it if"),
    ({"model_type": "gemma2"}, 'model_type is "gemma2": a Llama with post-norms, and with capped scores and logits '
                               f"(accepted: {TYPES}; a graph of any other model can be written as text, docs/ir.md)"),
    ({"model_type": "mixtral"}, f'model_type is "mixtral": routing to experts has no op (accepted: {TYPES};'),
    ({"model_type": "mine"}, f'model_type is "mine" (accepted: {TYPES};'),
    ({"model_type": ...}, f"model_type is missing (accepted: {TYPES};"),
    ({"sliding_window": 64}, "sliding_window is 64 (accepted: null)"),
    ({"model_type": "mistral", "sliding_window": 511}, None),
    ({"model_type": "mistral", "sliding_window": 0}, "sliding_window is 0 (accepted: 1 to 16777216)"),
    (WINDOW, None),
    ({**WINDOW, "use_sliding_window": "no"}, 'use_sliding_window is "no" (accepted: true, false)'),
    ({**WINDOW, "layer_types": ["full_attention", "linear_attention"]},
     'layer_types is "linear_attention" (accepted: full_attention, sliding_attention)'),
    ({**WINDOW, "layer_types": "full_attention"}, 'layer_types is "full_attention" (accepted: a list)'),
    ({"model_type": "phi3", "attention_bias": True}, "attention_bias is true (accepted: false)"),
    ({"model_type": "phi3", "embd_pdrop": 0.1}, "embd_pdrop is 0.1 (accepted: 0, or --dropout to replace"),
    ({"head_dim": "16"}, 'head_dim is "16" (accepted: 1 to 16777216)'),
    ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1 (accepted: true, false)"),
    ({"rope_scaling": LONG, "rope_parameters": LONG}, "(accepted: null beside rope_parameters)"),
    ({"rope_scaling": 3}, f'rope_scaling is 3 (accepted: {ROPE}; with --plan-only, for a plan alone, also "dynamic", '
                          '"yarn" or "longrope")'),
    ({"rope_scaling": {"type": "yam"}}, f'rope_scaling is {{"type": "yam"}} (accepted: {ROPE}; with', "--plan-only"),
    ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor is 0.5 (accepted: 1 to 1e+30)"),
    ({"rope_scaling": {"type": "linear"}}, "(accepted: factor >= 1)"),
    ({"rope_scaling": {"type": "linear", "factor": 2, "beta": 1}}, "beta is 1 (accepted: absent)"),
    ({"rope_scaling": {"type": "yarn", "factor": 2}}, f'rope_scaling is {{"type": "yarn", "factor": 2}} (accepted: {ROPE}{ALONE}'),
    ({"rope_scaling": {"type": "dynamic", "factor": 2}}, ALONE),
    ({"rope_parameters": {"rope_type": "longrope", "long_factor": [1.5] * 8}}, ALONE),
    ({"partial_rotary_factor": 0.5}, f"partial_rotary_factor is 0.5 (accepted: 1{ALONE}"),
    ({"model_type": "phi3", "partial_rotary_factor": 0.5}, None),
    ({"model_type": "phi3", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75}}, None),
    ({"model_type": "phi3", "partial_rotary_factor": 0.1},
     "--head-size 16: partial_rotary_factor 0.1 turns 1 of its elements (accepted: an even number of them, from 2 on)"),
    ({"model_type": "phi3", "partial_rotary_factor": 2}, "partial_rotary_factor is 2 (accepted: more than 0 up to 1)"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, f"factor is 0.5 (accepted: 1{ALONE}"),
    ({"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5 (accepted: more than 0 up to 1)", "--plan-only"),
    ({"partial_rotary_factor": "half"}, 'partial_rotary_factor is "half" (accepted: more than 0', "--plan-only"),
    ({"rope_interleaved": True}, f"rope_interleaved is true (accepted: false{ALONE}"),
    ({"rope_interleaved": 1}, "rope_interleaved is 1 (accepted: false)", "--plan-only"),
    ({"model_type": "qwen2", "use_mrope": True}, f"use_mrope is true (accepted: false{ALONE}"),
    ({**GPT2, "scale_attn_by_inverse_layer_idx": 1}, "scale_attn_by_inverse_layer_idx is 1 (accepted: true, false)"),
    ({**GPT2, "embd_pdrop": 0.1, "resid_pdrop": 0.2}, "with --plan-only, for a plan alone, also unequal ones above 0)"),
    ({**GPT2, "embd_pdrop": 0.1, "resid_pdrop": 0}, "embd_pdrop is 0.1 and resid_pdrop is 0 (accepted:", "--plan-only"),
    ({**GPT2, "embd_pdrop": 0.1, "resid_pdrop": 0.2}, None, "--plan-only"),
    ({**GPT2, "bias": "no"}, 'bias is "no" (accepted: true, false)'),
    ({**GPT2, "bias": False}, None),
    ({**GPT2, "multi_query": True}, "multi_query is true (accepted: absent: this key is unknown"),
    ({**BIGCODE, "multi_query": None}, None),
    ({**BIGCODE, "num_key_value_heads": 4}, "num_key_value_heads is 4 (accepted: 1, as multi_query says)"),
    ({**BIGCODE, "multi_query": False, "num_key_value_heads": 4}, None),
    (BIGCODE, "--kv-heads 3 does not divide --heads 4", "--kv-heads", "3"),
    ({}, "--no-bias does not apply to model llama", "--no-bias"),
    ({"rope_scaling": {**LONG, "factor": 0.5}}, "factor is 0.5 (accepted: 1 to 1e+30)"),
    ({"rope_scaling": {**LONG, "factor": 1e31}}, "factor is 1e31 (accepted: 1 to 1e+30)"),
    ({"rope_scaling": {**LONG, "high_freq_factor": 1}}, "(accepted: factor >= 1, low_freq_factor < high_freq_factor"),
    ({"rope_theta": 0.5}, "rope_theta is 0.5 (accepted: more than 1, up to 1e+30)"),
    ({"rope_theta": 1e31}, "rope_theta is 1e31 (accepted: more than 1, up to 1e+30)"),
    ({"rms_norm_eps": 1e31}, "rms_norm_eps is 1e31 (accepted: more than 0, up to 1e+30)"),
    ({"rms_norm_eps": 1e30, "rope_theta": 1e30}, None),
    ({"rope_scaling": {**LONG, "factor": []}}, "factor is [] (accepted: 1 to 1e+30)"),
    ({"rope_scaling": {**LONG, "low_freq_factor": 0}}, "low_freq_factor is 0 (accepted: more than 0, up to 1e+30)"),
    ({"rope_scaling": {**LONG, "high_freq_factor": ""}}, 'high_freq_factor is "" (accepted: more than 0, up to 1e+30)'),
    ({"rope_scaling": {**LONG, "original_max_position_embeddings": -1}},
     "original_max_position_embeddings is -1 (accepted: 1 or more)"),
    ({"rope_scaling": {**LONG, "beta": 2}}, "beta is 2 (accepted: absent)"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, "rope_theta is 0 (accepted: more than 1, up to 1e+30)"),
    (WINDOW, "--seq 257 is above the model's sliding_window 256, and attention is not computed in windows "
             "(accepted: 1 to 256)", *LONGER),
    ({**WINDOW, "use_sliding_window": False}, None, *LONGER),
    ({**WINDOW, "use_sliding_window": ...}, None, *LONGER),
    ({**WINDOW, "layer_types": ["full_attention"] * 2}, None, *LONGER),
    ({**WINDOW, "layer_types": ["full_attention", "sliding_attention"]}, "--seq 257 is above", *LONGER),
    ({"model_type": "mistral", "sliding_window": 256}, "--seq 257 is above", *LONGER),
    ({"model_type": "mistral", "sliding_window": None}, None, *LONGER),
    ({"model_type": "phi3", "sliding_window": 256}, "--seq 257 is above", *LONGER),
    ({}, None, *MORE),
    ({"model_type": "qwen2"}, None, *MORE),
    ({**dict.fromkeys(LLAMA, ...), **MARIAN}, None, *MORE, "--source-seq", "700"),
    (GPT2, "--seq 600 is above --context 64 (accepted: 1 to 64)", *MORE),
    ({**dict.fromkeys(LLAMA, ...), **BERT}, "--seq 600 is above --context 64 (accepted: 1 to 64)", *MORE),
]


COMMON = {"hidden_act": "silu", "initializer_range": 0.02, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
          "transformers_version": "4.51.0", "use_cache": True, "rope_theta": 10000.0, "bos_token_id": 1}
QWEN = {**COMMON, "attention_dropout": 0.0, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "vocab_size": 151936,
        "use_sliding_window": False}
LLAMA2 = {**COMMON, "model_type": "llama", "attention_bias": False, "hidden_size": 4096, "intermediate_size": 11008,
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1,
          "rms_norm_eps": 1e-5, "vocab_size": 32000}
QWEN7 = {**QWEN, "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
         "max_position_embeddings": 32768, "max_window_layers": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
         "sliding_window": 131072, "vocab_size": 152064}
PHI = {**COMMON, "model_type": "phi3", "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0,
       "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 131072, "num_attention_heads": 32,
       "num_hidden_layers": 32, "original_max_position_embeddings": 4096, "resid_pdrop": 0.0, "rms_norm_eps": 1e-5,
       "sliding_window": 262144}
FACTORS = [round(1 + k / 7, 3) for k in range(48)]
GPT2_SMALL = {"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1,
              "n_embd": 768, "n_head": 12, "n_inner": None, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
              "vocab_size": 50257}
PLANS = [  # the same, and the mark with --plan-only; without a mark the option is not needed
    ({**LLAMA2, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": False,
      "num_key_value_heads": 8, "rope_theta": 500000.0, "vocab_size": 128256, "eos_token_id": [128001, 128008],
      "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 8192, "rope_type": "llama3"}},
     "Llama-3.1-8B", 8030261248, None),
    ({**LLAMA2, "max_position_embeddings": 16384, "rms_norm_eps": 1e-6, "rope_theta": 100000, "vocab_size": 32256,
      "rope_scaling": {"factor": 4.0, "type": "linear"}}, "deepseek-coder-6.7b-base", 6740512768, None),
    ({**LLAMA2, "max_position_embeddings": 131072,
      "rope_scaling": {"factor": 32.0, "original_max_position_embeddings": 4096, "type": "yarn", "finetuned": True}},
     "Yarn-Llama-2-7b-128k", 6738415616, 'rope_type is "yarn"'),
    ({**QWEN7, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}},
     "Qwen2.5-7B-Instruct", 7615616512, 'rope_type is "yarn"'),
    ({**PHI, "auto_map": {}, "num_key_value_heads": 32, "vocab_size": 32064,
      "rope_scaling": {"long_factor": FACTORS, "short_factor": FACTORS, "type": "longrope"}},
     "Phi-3-mini-128k-instruct", 3821079552, 'rope_type is "longrope"'),
    ({**PHI, "full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": False, "mlp_bias": False,
      "num_attention_heads": 24, "num_key_value_heads": 8, "partial_rotary_factor": 0.75, "vocab_size": 200064,
      "tie_word_embeddings": True,
      "rope_scaling": {"long_factor": FACTORS, "short_factor": FACTORS, "type": "longrope"}},
     "Phi-4-mini-instruct", 3836021760, 'rope_type is "longrope"'),
    ({**GPT2_SMALL, "resid_pdrop": 0.2}, "GPT-2 with more dropout", 124439808, "embd_pdrop is 0.1 and resid_pdrop is 0.2"),
    ({**GPT2_SMALL, "reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": True},
     "stanford-crfm/alias-gpt2-small-x21", 124439808, None),
    ({**GPT2_SMALL, "model_type": "gpt_bigcode", "activation_function": "gelu_pytorch_tanh",
      "attention_softmax_in_fp32": True, "inference_runner": 0, "max_batch_size": None, "max_sequence_length": None,
      "multi_query": True, "n_embd": 2048, "n_head": 16, "n_inner": 8192, "n_layer": 24, "n_positions": 8192,
      "pad_key_length": True, "pre_allocate_kv_cache": False, "scale_attention_softmax_in_fp32": True,
      "validate_runner_input": True, "vocab_size": 49152}, "starcoderbase-1b", 1137207296, None),
    ({"model_type": "bert", "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
      "hidden_dropout_prob": 0.1, "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
      "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 2,
      "position_embedding_type": "absolute", "vocab_size": 30522}, "bert-base-uncased", 109514298, None),
]
HUB = [  # the file, what it is of, its parameters
    ({**COMMON, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_size": 4096,
      "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "sliding_window": 4096, "vocab_size": 32000},
     "Mistral-7B-v0.1", 7241732096),
    ({**QWEN, "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
      "max_window_layers": 24, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
      "sliding_window": 32768, "tie_word_embeddings": True, "use_mrope": False}, "Qwen2.5-0.5B", 494032768),
    ({**QWEN, "model_type": "qwen3", "attention_bias": False, "head_dim": 128, "hidden_size": 4096,
      "intermediate_size": 12288, "max_position_embeddings": 40960, "max_window_layers": 36, "num_attention_heads": 32,
      "num_hidden_layers": 36, "num_key_value_heads": 8, "rope_scaling": None, "sliding_window": None},
     "Qwen3-8B", 8190735360),
    ({**COMMON, "model_type": "phi3", "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
      "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_size": 3072,
      "intermediate_size": 8192, "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 32, "original_max_position_embeddings": 4096, "resid_pdrop": 0.0, "rms_norm_eps": 1e-5,
      "rope_scaling": None, "sliding_window": 2047, "vocab_size": 32064}, "Phi-3-mini-4k-instruct", 3821079552),
    ({"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1, "n_ctx": 1024,
      "n_embd": 1024, "n_head": 16, "n_layer": 24, "n_positions": 1024, "n_special": 0, "predict_special_tokens": True,
      "resid_pdrop": 0.1, "vocab_size": 50257}, "gpt2-medium", 354823168),
    ({**COMMON, "model_type": "llama", "attention_bias": False, "hidden_size": 576, "intermediate_size": 1536,
      "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False, "num_attention_heads": 9,
      "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-5, "rope_interleaved": False,
      "rope_theta": 100000, "tie_word_embeddings": True, "vocab_size": 49152}, "SmolLM2-135M", 134515008),
]


def write(config):
    pathlib.Path(CONFIG).write_text(json.dumps(config), encoding="utf-8")


def graph(config, *options):
    write(config)
    return tool("graph", CONFIG, "--text", *options)


def check_hub():
    for config, name, published, *mark in [*HUB, *PLANS]:
        result = graph(config, *["--plan-only"] * (mark not in ([], [None])))
        shapes = re.findall(r"^parameter %\S+ : f32\[([\d,]+)\]", result.stdout, re.M)
        count = sum(math.prod(map(int, shape.split(","))) for shape in shapes)
        check(count == published, f"{name}: {count} parameters, published {published}")
        marks = re.findall(r'^plan_only "(.*)"$', result.stdout, re.M)
        check([text.replace('\\"', '"') for text in marks] == [text for text in mark if text], f"{name}: marked {marks}, expected {mark}")


def check_positions():
    """Sequences above what a model was made for, from either tool, which says so in either case."""
    rows = [({**LLAMA, "max_position_embeddings": 32}, "seq", "--seq 40 is above the 32", "sequences of 40 tokens are above the 32"),
            ({**MARIAN, "max_position_embeddings": 32}, "source_seq", "--source-seq 40 is above the 32", "sequences of 40 tokens are above"),
            ({**LLAMA, "max_position_embeddings": 40}, "seq", None, None)]
    for config, symbol, said, noted in rows:
        write(config)
        lengths = {"--seq": "32", **({"--source-seq": "32"} if symbol == "source_seq" else {})}
        short = [word for pair in lengths.items() for word in pair]
        long = [word for pair in {**lengths, f"--{symbol.replace('_', '-')}": "40"}.items() for word in pair]
        given = tool.must("graph", CONFIG, *long, "-o", "given.fbs").stderr
        silent = tool.must("graph", CONFIG, *short, "-o", "model.fbs").stderr
        check((said or "") in given and bool(given) == bool(said) and not silent, f"{said}: {given}{silent}")
        for options in ["given.fbs"], ["model.fbs", "--bind", f"{symbol}=40"], ["model.fbs"]:
            report = tool.json("compile", *options, "-o", "model.plan", "--format", "json")
            notes = [note for note in report["notes"] if "positions" in note]
            check(bool(notes) == bool(noted and options != ["model.fbs"]) and (not notes or noted in notes[0]),
                  f"{options}: {notes}, expected {noted}")
        if noted:
            tool.must("compile", "given.fbs", "-o", "model.plan")
            tool.must("run", "model.plan", "--text", CONFIG, "--steps", "1")


def check_mark():
    """A graph with a mark, and all that is made of it; another with the same sizes has the same plan."""
    write({**LLAMA, "num_local_experts": 8})
    refused(tool("graph", CONFIG, "--plan-only", "-o", "model.fbs"), 2, "delete it if it changes neither memory nor time")
    reason = 'rope_type is "dynamic", partial_rotary_factor is 0.25'
    marked = {**LLAMA, "rope_scaling": {"type": "dynamic", "factor": 2.0}, "partial_rotary_factor": 0.25}

    for config in LLAMA, marked:
        write(config)
        tool.must("graph", CONFIG, "--seq", "32", "--plan-only", "-o", "model.fbs")
        report = tool.json("compile", "model.fbs", "--ac-mode", "full", "--format", "json", "-o", "model.plan")
        bytes_and_time = [report.get(key) for key in ("plan_only", "peak_bytes", "step_ns")]
        if config is LLAMA:
            plain = bytes_and_time
            tool.must("run", "model.plan", "--text", CONFIG, "--steps", "1")
    check(not plain[0] and bytes_and_time == [reason, *plain[1:]], f"{bytes_and_time}, without a mark {plain}")
    text = tool.text("dump", "model.fbs", "--text")
    pathlib.Path("model.txt").write_text(text, encoding="utf-8")
    quoted = reason.replace('"', '\\"')
    check(f'\nplan_only "{quoted}"\n' in text, text)
    passes = tool.text("compile", "model.txt", "--print-after", "autodiff", "--print-after", "fold")
    check(passes.count(f'\nplan_only "{quoted}"\n') == 2, f"--print-after: {passes[-200:]}")
    check(f"\nplan only    {reason}\n" in tool.text("compile", "model.txt", "--bind", "batch=2", "-o", "model.plan"), "the report")
    for file in "model.fbs", "model.plan":
        check(f"\nplan only   {reason}\n" in tool.text("dump", file), file)
        check(tool.json("dump", file, "--format", "json")["plan_only"] == reason, f"remat-dump {file} --format json")
    tool.must("dump", "model.plan", "--emit-policy", "pytorch", "--model", "model.txt")
    before = sorted(os.listdir())
    for options in [], ["--eval"], ["--checkpoint", "run", "--save-weights", "folder/", "--init", "none"]:
        done = tool("run", "model.plan", "--text", CONFIG, "--steps", "1", *options)
        refused(done, 9, re.compile(f"model.plan only shows memory and time: it leaves out a part of its model, {re.escape(reason)}"))
    check(sorted(os.listdir()) == before, "remat-run has left files")


WRITTEN = [["--epsilon", "1"], ["--epsilon", "0"], ["--epsilon", "5e-324"], ["--beta1", "0", "--beta2", "0.9999999999999999"],
           ["--weight-decay", "1"], ["--weight-decay", "5e-324"], ["--clip-norm", "1e30"], ["--clip-norm", "5e-324"],
           ["--lora", "2", "--lora-alpha", "1e30"], ["--lora", "2", "--lora-alpha", "5e-324"], ["--dropout", "0.9999999999999999"],
           ["--optimizer", "sgd", "--weight-decay", "0.1"]]


def check_written():
    """What the options can say is read again, equal, from a binary graph and from text."""
    for options in WRITTEN:
        tool.must("graph", "gpt2-tiny", "--layers", "1", *options, "-o", "m.fbs")
        tool.must("dump", "m.fbs", "--text", "-o", "m.txt")
        said = pathlib.Path("m.txt").read_text(encoding="utf-8")
        check(tool.text("dump", "m.txt", "--text") == said and (
            "e-324" not in options[-1] or "--lora" in options or "5e-324" in said), options)


def check_large():
    """Sizes that are each in range, with a product that is not, are no lack of memory."""
    made = tool("graph", "gpt2", "--layers", "1", "--width", "131072", "--heads", "4096", "--context", "1048576",
                "--batch", "65536", "--attention", "written-out", "--text")
    refused(made, INVALID, "is too large")
    refused(made, INVALID, "h.0.attn.core.scores")


@scratch()
def main():
    for part in check_hub, check_mark, check_positions, check_written, check_large:
        part()
    for change, message, *options in CASES:
        config = {key: value for key, value in {**LLAMA, **change}.items() if value is not ...}
        result = graph(config, *options)
        named = result.stderr.startswith(("remat-graph: error: --", f"remat-graph: error: {CONFIG}: "))
        check(result.returncode == 0 if message is None else result.returncode == USAGE and named and message in result.stderr,
              f"{change}: expected {message}")
    finish(f"{len(CASES) + len(HUB) + len(PLANS)} cases")


main()
