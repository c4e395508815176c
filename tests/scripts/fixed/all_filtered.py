# kind: a collate that drops None, and a batch of nothing else; as in https://github.com/pytorch/pytorch/issues/57429
# fix: unreadable files are left out when the list is made
"""Unreadable files come as None and are filtered by the collate. Two of them meet in one batch of two."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate


class Photos(Dataset):
    def __init__(self, count):
        self.readable = [i % 37 not in (20, 21) for i in range(count)]

    def __len__(self):
        return len(self.readable)

    def __getitem__(self, i):
        if not self.readable[i]:
            return None
        return torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(i)), i % 2


def skip_none(items):
    return default_collate([item for item in items if item is not None])


def main():
    torch.manual_seed(2)
    photos = Photos(74)
    good = [i for i, ok in enumerate(photos.readable) if ok]
    photos = torch.utils.data.Subset(photos, good)
    loader = DataLoader(photos, batch_size=2, collate_fn=skip_none)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for image, label in loader:
        loss = nn.functional.cross_entropy(model(image), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", loss.item())


if __name__ == "__main__":
    main()
