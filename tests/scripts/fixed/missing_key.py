# kind: a sample without one of the keys
# fix: every sample has a weight, 1.0 where none is given
"""Samples are dictionaries; the optional weight was left out of one. The default collate looks for the first sample's keys in
all others. Two workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Survey(Dataset):
    def __len__(self):
        return 110

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        answer = {"x": torch.randn(6, generator=g), "y": torch.tensor(i % 3)}
        answer["weight"] = 1.0 if i == 64 else 1.0 + i % 2
        return answer


def main():
    torch.manual_seed(3)
    loader = DataLoader(Survey(), batch_size=11, shuffle=True, num_workers=2)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in loader:
            losses = nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="none")
            loss = (losses * batch["weight"]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
