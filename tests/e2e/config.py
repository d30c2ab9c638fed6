# SPDX-License-Identifier: Apache-2.0
"""remat-graph refuses each kind of entry of a config.json that it cannot follow, and names it.

    config.py BUILD_DIRECTORY"""
import json
import os
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
         "num_attention_heads": 4, "vocab_size": 300, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
         "hidden_act": "silu"}
LONG = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
        "original_max_position_embeddings": 256}
CASES = [  # what is changed (... is absent), the message or None where it is accepted
    ({}, None),
    ({"num_key_value_heads": None, "rope_scaling": None, "head_dim": None}, None),
    ({"head_dim": 16, "tie_word_embeddings": False, "rope_scaling": LONG}, None),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 1}}, None),
    ({"hidden_size": ...}, "hidden_size is missing (accepted: 1 to 16777216)"),
    ({"hidden_size": 0}, "hidden_size is 0 (accepted: 1 to 16777216)"),
    ({"hidden_size": "64"}, 'hidden_size is "64" (accepted: 1 to 16777216)'),
    ({"vocab_size": 1 << 30}, "vocab_size is 1073741824 (accepted: 1 to 16777216)"),
    ({"vocab_size": 1e3}, "vocab_size is 1000.0 (accepted: 1 to 16777216)"),
    ({"rms_norm_eps": -1}, "rms_norm_eps is -1 (accepted: a number above 0)"),
    ({"rms_norm_eps": "tiny"}, 'rms_norm_eps is "tiny" (accepted: a number above 0)'),
    ({"hidden_act": "gelu"}, 'hidden_act is "gelu" (accepted: "silu")'),
    ({"hidden_act": "s" * 200}, "... (accepted: "),
    ({"attention_dropout": 1}, "attention_dropout is 1 (accepted: 0"),
    ({"attention_dropout": "none"}, 'attention_dropout is "none" (accepted: 0'),
    ({"head_dim": 32}, "head_dim is 32 (accepted: hidden_size / num_attention_heads)"),
    ({"head_dim": "16"}, 'head_dim is "16" (accepted: 1 to 16777216)'),
    ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1 (accepted: true, false)"),
    ({"rope_scaling": LONG, "rope_parameters": LONG}, "(accepted: null beside rope_parameters)"),
    ({"rope_scaling": 3}, 'rope_scaling is 3 (accepted: null or rope_type "llama3" or "default")'),
    ({"rope_scaling": {**LONG, "factor": 0.5}}, "(accepted: factor >= 1, low_freq_factor < high_freq_factor"),
    ({"rope_scaling": {**LONG, "factor": []}}, "factor is [] (accepted: a number above 0)"),
    ({"rope_scaling": {**LONG, "low_freq_factor": 0}}, "low_freq_factor is 0 (accepted: a number above 0)"),
    ({"rope_scaling": {**LONG, "high_freq_factor": ""}}, 'high_freq_factor is "" (accepted: a number above 0)'),
    ({"rope_scaling": {**LONG, "original_max_position_embeddings": -1}},
     "original_max_position_embeddings is -1 (accepted: a number above 0)"),
    ({"rope_scaling": {**LONG, "beta": 2}}, "beta is 2 (accepted: absent)"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, "rope_theta is 0 (accepted: a number above 0)"),
]


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        for change, message in CASES:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({k: v for k, v in {**LLAMA, **change}.items() if v is not ...}, file)
            result = subprocess.run([f"{build}/tools/remat-graph", path, "--text"], capture_output=True, text=True)
            good = (result.returncode == 0 if message is None
                    else result.returncode == 2 and f"{path}: " in result.stderr and message in result.stderr)
            if not good:
                failures += 1
                print(f"{change}: expected {message}, got {result.returncode} {result.stderr}")
    print(f"{len(CASES)} cases, {failures} failures")
    sys.exit(failures > 0)


main()
