# kind: token ids in 16 bits
# fix: long() in the data set
"""The training part was tokenised to int64, the validation part to int16 to save space: its very first batch fails, whichever
sample is in it."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __init__(self, count, seed, dtype):
        self.ids = np.random.default_rng(seed).integers(0, 60, size=(count, 9)).astype(dtype)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = torch.from_numpy(self.ids[i])
        ids = ids.long()
        return ids, int(self.ids[i, 0]) % 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(60, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, ids):
        return self.head(self.table(ids).amax(1))


def run(net, loader, optimizer=None):
    total = 0.0
    with torch.set_grad_enabled(optimizer is not None):
        for ids, y in loader:
            loss = nn.functional.cross_entropy(net(ids), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item()
    return total / len(loader)


if __name__ == "__main__":
    torch.manual_seed(2)
    loaders = {
        "train": DataLoader(Tokens(90, 1, "int64"), batch_size=15, shuffle=True),
        "val": DataLoader(Tokens(45, 2, "int16"), batch_size=15),
    }
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(2):
        print(epoch, "train", run(net, loaders["train"], optimizer))
        print(epoch, "val", run(net, loaders["val"]))
