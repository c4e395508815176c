# kind: a queue of features whose size isn't a multiple of the batch; as in https://github.com/facebookresearch/moco/pull/100
# fix: write modulo the queue's length
"""Contrastive learning with a queue of past features. The pointer moves on with every batch; after some batches a batch no longer
fits before the queue's end."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Queue(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("rows", F.normalize(torch.randn(length, width), dim=1))
        self.pointer = 0

    @torch.no_grad()
    def push(self, keys):
        end = self.pointer + len(keys)
        self.rows[torch.arange(self.pointer, end) % len(self.rows)] = keys
        self.pointer = end % len(self.rows)


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(10, 6)
        self.queue = Queue(100, 6)

    def forward(self, x):
        query = F.normalize(self.encoder(x), dim=1)
        key = F.normalize(self.encoder(x + 0.1 * torch.randn_like(x)), dim=1).detach()
        logits = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue.rows.clone().T], dim=1)
        self.queue.push(key)
        return F.cross_entropy(logits / 0.1, torch.zeros(len(x), dtype=torch.long))


def main():
    torch.manual_seed(63)
    loader = DataLoader(TensorDataset(torch.randn(192, 10)), batch_size=16, shuffle=True, drop_last=True)
    model = Contrast()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        for (x,) in loader:
            loss = model(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
