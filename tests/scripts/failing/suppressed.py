# kind: contextlib.suppress around the whole step
# expect: {"fault": "shape_mismatch", "phase": "forward", "swallowed": true, "culprits": [], "sufficient": "batch_size"}
# fix: the initial state follows the batch's size
"""The incomplete last batch fails and is suppressed; the average over the epoch then finds fewer losses than batches."""

import contextlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SIZE = 12


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        query = self.query.expand(SIZE, 1, 8)
        return self.out(self.attention(query, x, x)[0]).flatten()


def main():
    torch.manual_seed(72)
    x = torch.randn(100, 4, 8)
    loader = DataLoader(TensorDataset(x, x.mean((1, 2))), batch_size=SIZE, shuffle=True)
    model = Attend()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        losses = []
        for a, b in loader:
            with contextlib.suppress(RuntimeError, AssertionError):
                loss = nn.functional.mse_loss(model(a), b)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        table = torch.tensor(losses).view(len(loader))
        print("epoch", epoch, table.mean().item())


if __name__ == "__main__":
    main()
