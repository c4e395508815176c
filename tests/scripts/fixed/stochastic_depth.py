# kind: a branch taken by chance in forward
# fix: the projection is applied before the coin is tossed
"""Stochastic depth: with a small probability a block is left out, and then its input, which is narrower, meets the residual. Which
batch it hits is up to torch's generator alone."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width, out, drop=0.04):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(width, out), nn.ReLU(), nn.Dropout(0.1))
        self.project = nn.Linear(width, out)
        self.drop = drop

    def forward(self, x):
        residual = self.project(x)
        if self.training and torch.rand(()) < self.drop:
            return residual
        return residual + self.main(x)


def main():
    torch.manual_seed(68)
    x = torch.randn(180, 6)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    model = nn.Sequential(Block(6, 10), nn.LayerNorm(10), nn.Linear(10, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for epoch in range(4):
        for a, label in DataLoader(data, batch_size=12, shuffle=True):
            loss = nn.functional.cross_entropy(model(a), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
