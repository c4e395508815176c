# kind: months counted from 1 in one file only
# expect: {"fault": "index_out_of_domain", "phase": "forward", "loader": 0, "pass": 4, "batch": 3, "last_completed_step": 27, "indices": [110, 39, 31, 139, 181, 10, 88, 143, 86, 175], "culprits": [175], "sufficient": "culprits"}
# fix: subtract 1 where the second file is read
"""Sales forecast with one-hot months. The second file counts months from 1, so only its December is out of range. Step-based
training: an endless iterator that is made anew when it runs out."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Sales(Dataset):
    def __init__(self):
        first = [(m % 12, 10.0 + m % 12) for m in range(150)]
        second = [(1 + m % 11, 10.0 + m % 11) for m in range(40)]
        second[25] = (12, 21.0)
        self.rows = first + second

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        month, amount = self.rows[i]
        return torch.tensor(month), torch.tensor(amount)


class Endless:
    def __init__(self, loader):
        self.loader = loader
        self.iterator = iter(loader)

    def next(self):
        try:
            return next(self.iterator)
        except StopIteration:
            self.iterator = iter(self.loader)
            return next(self.iterator)


def main():
    torch.manual_seed(2)
    sampler = torch.utils.data.RandomSampler(Sales(), num_samples=60)
    batches = Endless(DataLoader(Sales(), batch_size=10, sampler=sampler))
    model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(60):
        month, amount = batches.next()
        season = F.one_hot(month, num_classes=12).float()
        loss = F.smooth_l1_loss(model(season).squeeze(1), amount)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print("step", step + 1, round(loss.item(), 3))


if __name__ == "__main__":
    main()
