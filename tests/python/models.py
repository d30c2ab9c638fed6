# SPDX-License-Identifier: Apache-2.0
"""Tiny models with dropout, each as (model, step): step(f) is the loss of one forward pass by f, the model or what
torch.compile made of it."""
import torch
import transformers as hf
from torch import nn
from torch.nn import functional as F

WIDTH, VOCABULARY, SEQUENCE, BATCH = 32, 64, 32, 4
DROPOUT = 0.1


def tokens():
    return torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), generator=torch.Generator().manual_seed(1))


def language(model, **inputs):
    model.config.use_cache = False
    ids = tokens()
    return model, lambda f: F.cross_entropy(f(input_ids=ids, **inputs).logits.flatten(0, 1), ids.flatten())


def gpt2(layers=2, width=WIDTH):
    return language(hf.GPT2LMHeadModel(hf.GPT2Config(
        n_layer=layers, n_head=2, n_embd=width, vocab_size=VOCABULARY, n_positions=SEQUENCE, bos_token_id=0,
        eos_token_id=0)))


def llama():
    return language(hf.LlamaForCausalLM(hf.LlamaConfig(
        num_hidden_layers=1, hidden_size=WIDTH, intermediate_size=80, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=VOCABULARY, attention_dropout=DROPOUT)))


def bert():
    return language(hf.BertForMaskedLM(hf.BertConfig(
        num_hidden_layers=1, hidden_size=WIDTH, intermediate_size=64, num_attention_heads=2, vocab_size=VOCABULARY,
        max_position_embeddings=SEQUENCE)))


def t5():
    model = hf.T5ForConditionalGeneration(hf.T5Config(
        num_layers=1, d_model=WIDTH, d_ff=64, d_kv=16, num_heads=2, vocab_size=VOCABULARY, decoder_start_token_id=0))
    return language(model, decoder_input_ids=tokens())


def on_noise(model, *shape):
    """The loss is the mean square of every result that has a gradient."""
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(2))

    def step(f):
        results = f(noise.clone())
        results = results.values() if isinstance(results, dict) else [results]
        return sum((index + 1) * one.square().mean() for index, one in enumerate(results) if one.requires_grad)
    return model, step


class Mixer(nn.Module):
    """Layers that mix positions, then channels."""

    def __init__(self, layers=2, positions=16, width=WIDTH):
        super().__init__()

        def mlp(size):
            return nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Dropout(DROPOUT), nn.Linear(2 * size, size))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(mlp(size) for _ in range(layers) for size in (positions, width))

    def forward(self, x):
        for index in range(0, len(self.norms), 2):
            x = x + self.mlps[index](self.norms[index](x).transpose(1, 2)).transpose(1, 2)
            x = x + self.mlps[index + 1](self.norms[index + 1](x))
        return x.mean(1)


class Vision(nn.Module):
    """Patches, a class token, an encoder, a head."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.token, self.place = nn.Parameter(torch.zeros(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 17, WIDTH) / 9)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(WIDTH, 2, 64, DROPOUT, "gelu", batch_first=True, norm_first=True), 2,
            enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.encoder(x)[:, 0])


class Convolutions(nn.Module):
    """Batch norms, in-place activations, dropout of channels, and a buffer that is read, changed, read and changed."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(2), nn.Dropout2d(0.2),
            nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.SiLU(True))
        self.head = nn.Linear(8, 5)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        y = self.body(x)
        self.seen.add_(y.detach().mean((0, 2, 3)))
        z = torch.tanh(y + self.seen[:, None, None])
        self.seen.mul_(0.5)
        return self.head(z.mean((2, 3)))


class Views(nn.Module):
    """Three views of one storage, changes in place of values and of strided views, gathers, cumulative sums."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.a(x).split(WIDTH, -1)
        y = torch.relu_((q + 1).mul_(2.0))
        k = k.clone()
        k[:, ::2] += v[:, ::2]
        turned = k.transpose(0, 1).reshape(x.shape[0], WIDTH)[:, torch.arange(WIDTH - 1, -1, -1)]
        return self.b(F.dropout((y * turned).cumsum(0), 0.2)).sin_()


class Several(nn.Module):
    """Results that alias an input, each other, and a value that the backward pass reads."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        h = torch.tanh(self.a(x))
        u = F.dropout(self.b(h), DROPOUT)
        return {"h": h, "u": u.t(), "loss": (self.c(u * h) ** 2).mean(), "norm": u.detach().norm(), "x": x.view(-1)}


class Broken(nn.Module):
    """Three graphs."""

    def __init__(self):
        super().__init__()
        self.a = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Dropout(DROPOUT),
                                             nn.Linear(128, WIDTH)) for _ in range(3))

    def forward(self, x):
        x = x + self.a[0](x)
        torch._dynamo.graph_break()
        x = x + self.a[1](x)
        torch._dynamo.graph_break()
        return x + self.a[2](x)


def encoder(frozen=()):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 64, DROPOUT, batch_first=True), 2)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(tuple(frozen)) if frozen else True)
    return on_noise(model, BATCH, SEQUENCE, WIDTH)


MODELS = {
    "gpt2": gpt2, "llama": llama, "bert": bert, "t5": t5,
    "mixer": lambda: on_noise(Mixer(), BATCH, 16, WIDTH),
    "vision": lambda: on_noise(Vision(), BATCH, 3, 16, 16),
    "convolutions": lambda: on_noise(Convolutions(), BATCH, 3, 16, 16),
    "views": lambda: on_noise(Views(), 32, WIDTH),
    "several": lambda: on_noise(Several(), 32, WIDTH),
    "broken": lambda: on_noise(Broken(), 64, WIDTH),
    "encoder": encoder,
    "frozen": lambda: encoder(("layers.0.self_attn", "layers.0.linear1", "layers.1.norm1")),
}


def make(name):
    torch.manual_seed(0)
    model, step = MODELS[name]()
    return model.train(), step
