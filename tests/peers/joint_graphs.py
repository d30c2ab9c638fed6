# SPDX-License-Identifier: Apache-2.0
"""Joint graphs of training steps as Inductor hands them to a partitioner, after its passes over them, traced with fake
tensors: no weights and no GPU. Models are those of transformers in bf16, without dropout, with the loss in the graph."""
import contextlib
import dataclasses
import functools

import torch
import transformers
from torch._functorch import partitioners
from torch._inductor import compile_fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from transformers.initialization import no_init_weights

import meter

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu
# What selective checkpointing saves.
PRODUCTS = [aten.mm.default, aten.addmm.default, aten.bmm.default, aten.convolution.default, ATTENTION.default]


@dataclasses.dataclass(frozen=True)
class Joint:
    module: torch.fx.GraphModule
    result_count: int  # of the forward pass
    static: tuple  # indices of inputs that stay where they are: parameters

    def partitioned(self, partition):
        """Forward and backward graph by a function like min_cut_rematerialization_partition."""
        return partition(meter.copied(self.module), None, num_fwd_outputs=self.result_count,
                         static_lifetime_input_indices=list(self.static))


def tokens(*shape):
    return torch.zeros(*shape, dtype=torch.long)


def gpt2(layers):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=layers, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))
    return model, model.transformer.h, {"input_ids": tokens(8, 1024)}, tokens(8, 1024)


def llama3(layers):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=layers, hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192, use_cache=False))
    return model, model.model.layers, {"input_ids": tokens(1, 8192)}, tokens(1, 8192)


def t5_small(layers):
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        num_layers=layers, num_decoder_layers=layers, dropout_rate=0, use_cache=False))
    inputs = {"input_ids": tokens(16, 512), "decoder_input_ids": tokens(16, 512)}
    return model, [*model.encoder.block, *model.decoder.block], inputs, tokens(16, 512)


def bert_large(layers):
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        num_hidden_layers=layers, hidden_size=1024, intermediate_size=4096, num_attention_heads=16,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    return model, model.bert.encoder.layer, {"input_ids": tokens(16, 512)}, tokens(16, 512)


def vit(layers):
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        num_hidden_layers=layers, hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=1000))
    return model, model.vit.layers, {"pixel_values": torch.zeros(64, 3, 224, 224)}, tokens(64)


def resnet50(layers):
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        depths=[min(layers, depth) for depth in (3, 4, 6, 3)], num_labels=1000))
    blocks = [block for stage in model.resnet.encoder.stages for block in stage.layers]
    return model, blocks, {"pixel_values": torch.zeros(64, 3, 224, 224)}, tokens(64)


MODELS = {"gpt2-2": (gpt2, 2), "gpt2-124m": (gpt2, 12), "llama3-8b-2": (llama3, 2), "llama3-8b-8": (llama3, 8),
          "llama3-8b": (llama3, 32), "t5-2": (t5_small, 2), "t5-small": (t5_small, 6), "bert-2": (bert_large, 2),
          "bert-large": (bert_large, 24), "vit-2": (vit, 2), "vit-base": (vit, 12), "resnet-4": (resnet50, 1),
          "resnet-50": (resnet50, 6)}
CHECKPOINTING = ("full", "selective")


def _checkpoint(blocks, how):
    """Each block is recomputed in the backward pass: all of it, or all but its products."""
    settings = {"use_reentrant": False}
    if how == "selective":
        settings["context_fn"] = functools.partial(create_selective_checkpoint_contexts, PRODUCTS)
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, **settings)


class _Captured(Exception):
    pass


class _Partitioner(CustomPartitionerFn):
    def __init__(self):
        self.joint = None

    def __call__(self, gm, joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None, **_):
        self.joint = Joint(gm, num_fwd_outputs, tuple(static_lifetime_input_indices or ()))
        raise _Captured

    def uuid(self):
        return None


def capture(name, checkpointing=None, on_gpu=True):
    make, layers = MODELS[name]
    partitioner = _Partitioner()

    def backend(module, inputs):
        return compile_fx.compile_fx(module, inputs, config_patches={"custom_partitioner_fn": partitioner,
                                                                      "fx_graph_cache": False})

    torch._dynamo.reset()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), no_init_weights():
            model, blocks, inputs, labels = make(layers)
            model.tie_weights()
            model.train()
            if checkpointing:
                _checkpoint(blocks, checkpointing)

            def step(inputs, labels):
                return cross_entropy(model(**inputs).logits.flatten(0, labels.dim() - 1).float(), labels.flatten())
            try:
                torch.compile(step, backend=backend, fullgraph=True)(inputs, labels)
            except Exception:
                if partitioner.joint is None:
                    raise
    finally:
        torch.set_default_dtype(torch.float32)
    joint = partitioner.joint
    return dataclasses.replace(joint, module=meter.on_cuda(joint.module)) if on_gpu else joint


@contextlib.contextmanager
def attention_counts_as_product():
    """PyTorch's partitioner knows attention of a GPU as compute-intensive, but not that of a CPU, with which the graphs
    are traced."""
    original = partitioners.get_default_op_list

    def extended():
        types = original()
        types.compute_intensive_ops.add(ATTENTION)
        return types
    partitioners.get_default_op_list = extended
    try:
        yield
    finally:
        partitioners.get_default_op_list = original
