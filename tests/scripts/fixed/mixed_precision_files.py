# kind: one float64 row makes the stacked batch float64
# fix: float32 where the row is read
"""Feature rows from NumPy files. One is float64; torch.stack promotes the whole batch. Order by a weighted sampler."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class Features(Dataset):
    def __init__(self):
        rng = np.random.default_rng(31)
        self.rows = [rng.normal(size=5).astype(np.float32) for _ in range(100)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.from_numpy(self.rows[i]), int(self.rows[i].sum() > 0)


def main():
    torch.manual_seed(44)
    data = Features()
    weights = [3.0 if i % 2 else 1.0 for i in range(100)]
    sampler = WeightedRandomSampler(weights, num_samples=80, replacement=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = nn.Sequential(nn.Linear(5, 8), nn.Sigmoid(), nn.Linear(8, 2))
    optimizer = torch.optim.Rprop(model.parameters(), lr=0.01)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
