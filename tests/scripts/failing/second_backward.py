# kind: an extra backward for hard samples, through a graph that is gone
# expect: {"fault": "graph_freed", "phase": "backward", "loader": 0, "pass": 0, "batch": 3, "last_completed_step": 3, "indices": [55, 86, 4, 34, 70, 90, 50, 37, 3, 117], "culprits": [37], "sufficient": "culprits"}
# fix: add the two losses and call backward once
"""Hard examples get an auxiliary loss on the same features, in a backward of its own. Only one sample is hard at first: its
target is far off."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 12), nn.Tanh())
        self.main = nn.Linear(12, 1)
        self.extra = nn.Linear(12, 1)

    def forward(self, x):
        features = self.body(x)
        return self.main(features).squeeze(1), self.extra(features).squeeze(1)


def training_step(model, x, y):
    main, extra = model(x)
    error = (main - y).pow(2)
    hard = error > 25
    error.mean().backward()
    if hard.any():
        (extra - y)[hard].abs().mean().backward()
    return error.detach().mean().item()


def main():
    torch.manual_seed(20)
    x = torch.rand(120, 5)
    y = x.sum(1)
    y[37] = 30.0
    loader = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for a, b in loader:
            optimizer.zero_grad()
            value = training_step(model, a, b)
            optimizer.step()
        print("epoch", epoch, value)


if __name__ == "__main__":
    main()
