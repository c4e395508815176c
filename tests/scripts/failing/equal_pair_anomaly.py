# kind: the gradient of a distance of zero, seen by anomaly detection
# expect: {"fault": "nonfinite", "phase": "backward", "loader": 0, "pass": 0, "batch": 6, "last_completed_step": 6, "indices": [91, 11, 132, 138, 83, 109, 14, 98, 42, 135], "culprits": [109], "sufficient": "culprits"}
# fix: (squared + 1e-12).sqrt()
"""A siamese net with detect_anomaly on: one pair holds the same picture twice, and sqrt has no finite slope at 0."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 150

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        left, right = torch.randn(8, generator=g), torch.randn(8, generator=g)
        if i == 109:
            right = left.clone()
        return {"left": left, "right": right, "same": float(i % 2)}


def contrastive(a, b, same, margin=1.0):
    squared = (a - b).pow(2).sum(1)
    distance = squared.sqrt()
    return (same * distance + (1 - same) * (margin - distance).clamp(min=0)).mean()


def main():
    torch.manual_seed(55)
    torch.autograd.set_detect_anomaly(True)
    loader = DataLoader(Pairs(), batch_size=10, shuffle=True)
    tower = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4))
    optimizer = torch.optim.Adam(tower.parameters(), lr=1e-3)
    for epoch in range(2):
        for batch in loader:
            loss = contrastive(tower(batch["left"]), tower(batch["right"]), batch["same"].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
