# kind: a helper that returns None when a batch fails
# fix: the table has as many rows as there are hours in a day
"""train_batch catches everything, warns, and gives None; the sum over the epoch fails on it later. Hours run from 0 to 23, but for
one row with a 24 for midnight."""

import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rides(Dataset):
    def __len__(self):
        return 170

    def __getitem__(self, i):
        hour = 24 if i == 143 else i % 24
        hour = hour % 24
        return {"hour": hour, "distance": torch.tensor([1.0 + i % 7]), "price": 5.0 + 2 * (i % 7)}


class Price(nn.Module):
    def __init__(self):
        super().__init__()
        self.hour = nn.Embedding(24, 4)
        self.out = nn.Linear(5, 1)

    def forward(self, batch):
        return self.out(torch.cat([self.hour(batch["hour"]), batch["distance"]], 1)).squeeze(1)


def train_batch(model, optimizer, batch):
    try:
        loss = nn.functional.mse_loss(model(batch), batch["price"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()
    except Exception as error:
        warnings.warn(f"batch left out: {error}")
        return None


def main():
    torch.manual_seed(84)
    loader = DataLoader(Rides(), batch_size=10, shuffle=True, num_workers=2)
    model = Price()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(2):
        losses = [train_batch(model, optimizer, batch) for batch in loader]
        print("epoch", epoch, sum(losses) / len(losses))


if __name__ == "__main__":
    main()
