# kind: clip_grad_norm_ with error_if_nonfinite
# fix: log1p of the count
"""Counts go through log; one count is 0. Its contribution to the loss is masked out, but 0 times infinity in backward is NaN."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset


class CountModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3))
        self.out = nn.Linear(3, 1)

    def forward(self, counts):
        scaled = counts * self.shift.exp()
        return self.out(torch.where(counts > 0, scaled.clamp(min=1e-6).log(), torch.zeros_like(scaled)))


def main():
    torch.manual_seed(64)
    counts = torch.randint(1, 9, (144, 3)).float()
    counts[80, 1] = 0
    loader = DataLoader(TensorDataset(counts, counts.sum(1, keepdim=True)), batch_size=9, shuffle=True)
    model = CountModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.huber_loss(model(x), y).backward()
            norm = clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
            optimizer.step()
        print("epoch", epoch, "norm", round(norm.item(), 3))


if __name__ == "__main__":
    main()
