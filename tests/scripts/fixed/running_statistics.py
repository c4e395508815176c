# kind: running statistics spoilt by one batch, seen in evaluation
# fix: sentinel values are masked when the data is read
"""One training row holds 1e30 for 'not measured'. Training normalises by the batch and copes with it; the running moments become
infinite, and validation, fine by itself, comes out as NaN."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class RunningNorm(nn.Module):
    def __init__(self, width, momentum=0.1):
        super().__init__()
        self.register_buffer("first", torch.zeros(width))
        self.register_buffer("second", torch.ones(width))
        self.momentum = momentum

    def forward(self, x):
        if self.training:
            self.first.lerp_(x.mean(0), self.momentum)
            self.second.lerp_(x.pow(2).mean(0), self.momentum)
            return (x - x.mean(0)) / (x.std(0) + 1e-5)
        return (x - self.first) / ((self.second - self.first.pow(2)).clamp(min=0).sqrt() + 1e-5)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            output = model(x)
            if not torch.isfinite(output).all():
                raise ValueError("the validation output is not finite")
            error = (output - y).abs().mean()
    model.train()
    return error.item()


def main():
    torch.manual_seed(52)
    x = torch.randn(96, 4)
    y = x.sum(1, keepdim=True)
    x[13, 2] = 0.0
    train = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    held = torch.randn(20, 4)
    val = DataLoader(TensorDataset(held, held.sum(1, keepdim=True)), batch_size=10)
    model = nn.Sequential(RunningNorm(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        for a, b in train:
            loss = nn.functional.l1_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, evaluate(model, val))


if __name__ == "__main__":
    main()
