# kind: -1 for 'not labelled' reaches the loss
# fix: ignore_index=-1
"""Two data sources zipped: labelled rows, and rows that the labelling tool exported, some of them still marked -1. Batches are
dataclasses; class weights in the loss."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Batch:
    features: torch.Tensor
    label: torch.Tensor
    name: list


class Rows(Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(count, 7, generator=g)
        self.y = torch.randint(0, 3, (count,), generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i]), f"row {i}"


def collate(items):
    x, y, names = zip(*items)
    return Batch(torch.stack(x), torch.tensor(y), list(names))


def main():
    torch.manual_seed(19)
    exported = Rows(90, 2)
    exported.y[61] = -1
    clean = DataLoader(Rows(150, 1), batch_size=10, shuffle=True, collate_fn=collate)
    extra = DataLoader(exported, batch_size=6, shuffle=True, collate_fn=collate)
    model = nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.5]), ignore_index=-1)
    for epoch in range(2):
        for first, second in zip(clean, extra):
            loss = criterion(model(first.features), first.label)
            loss = loss + 0.3 * criterion(model(second.features), second.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
