# kind: sparse gradients and an optimizer that doesn't take them
# fix: SparseAdam for the table
"""An embedding with sparse=True is handed to Adam along with everything else: the first step fails, with any batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(500, 8, sparse=True)
        self.out = nn.Linear(8, 1)

    def forward(self, items):
        return self.out(self.items(items).mean(1)).squeeze(1)


def main():
    torch.manual_seed(1)
    model = Recommender()
    optimizers = [
        torch.optim.SparseAdam(model.items.parameters(), lr=0.01),
        torch.optim.Adam(model.out.parameters(), lr=0.01),
    ]
    data = TensorDataset(torch.randint(0, 500, (80, 5)), torch.rand(80))
    for epoch in range(2):
        for items, rating in DataLoader(data, batch_size=16, shuffle=True):
            loss = nn.functional.mse_loss(model(items), rating)
            model.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
