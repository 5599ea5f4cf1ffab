"""A small GPT over bytes, in plain PyTorch: what examples/train_gpt.py trains."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

N_BYTES = 256


@dataclass
class Config:
    context: int = 64
    width: int = 160
    n_layers: int = 3
    n_heads: int = 5
    dropout: float = 0.1


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.n_heads, width // self.n_heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * config.width, config.width),
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Bytes (batch, length) to logits of the next byte (batch, length, 256). The output layer shares the embedding."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(N_BYTES, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, N_BYTES, bias=False)
        self.head.weight = self.embedding.weight

    def initialize(self, generator: torch.Generator) -> "GPT":
        """Draw the weights from `generator`, so that they are the same whatever device the model moves to."""
        residual = (2 * self.config.n_layers) ** -0.5
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                nn.init.constant_(parameter, 1.0 if "norm" in name and name.endswith("weight") else 0.0)
            else:
                std = parameter.shape[1] ** -0.5
                if name.endswith(("out.weight", "mlp.2.weight")):
                    std *= residual
                nn.init.normal_(parameter, std=std, generator=generator)
        return self

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        x = self.embedding(data) + self.position.weight[: data.shape[1]]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, data: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(data).flatten(0, 1), target.flatten())


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Matrices decay, biases and norms do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


@torch.no_grad()
def generate(model: GPT, prompt: bytes, n_bytes: int, temperature: float, generator: torch.Generator) -> bytes:
    """Continue `prompt`. Every step runs on a window of the same size, so that no new shape has to be compiled:
    attention is causal, hence what lies behind the last byte does not matter."""
    device = model.embedding.weight.device
    text = list(prompt)
    for _ in range(n_bytes):
        window = text[-model.config.context :]
        data = torch.zeros(1, model.config.context, dtype=torch.int64)
        data[0, : len(window)] = torch.tensor(window)
        last = torch.tensor([len(window) - 1])
        logits = model(data.to(device)).index_select(1, last.to(device)).cpu().flatten()
        probabilities = torch.softmax(logits / temperature, dim=0)
        text.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return bytes(text)
