# kind: a sample that takes longer than the loader's timeout
# fix: files above a size are resampled beforehand
"""One recording is hours long, and reading it runs into timeout=1."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Recordings(Dataset):
    def __init__(self, count, long):
        self.seconds = [0.001] * count
        self.seconds[long] = 0.01

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, i):
        time.sleep(self.seconds[i])
        return torch.randn(5, generator=torch.Generator().manual_seed(i)), torch.tensor(float(i % 3))


if __name__ == "__main__":
    torch.manual_seed(7)
    loader = DataLoader(Recordings(60, long=31), batch_size=6, shuffle=True, num_workers=1, timeout=1)
    model = nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
    print("trained", loss.item())
