# kind: view with the batch size as a constant
# expect: {"fault": "shape_mismatch", "phase": "forward", "loader": 1, "pass": 0, "batch": 8, "last_completed_step": 16, "indices": [3, 7, 78, 42, 77, 76, 88, 6, 13], "operator": "aten.view", "culprits": [], "sufficient": "batch_size"}
# fix: reshape(len(x), -1, 4)
"""The model folds time steps with view(BATCH, …); the last batch of the second epoch's longer list is incomplete."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

BATCH = 14


class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(3, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        hidden = self.lift(x.reshape(-1, 3))
        hidden = hidden.view(BATCH, 5, 4)
        return self.out(hidden.mean(1)).squeeze(1)


def main():
    torch.manual_seed(15)
    x = torch.randn(121, 5, 3)
    data = TensorDataset(x, x.mean((1, 2)))
    model = Folded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch, count in enumerate([112, 121, 121]):
        loader = DataLoader(Subset(data, range(count)), batch_size=BATCH, shuffle=True)
        for a, b in loader:
            loss = nn.functional.mse_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, count, loss.item())


if __name__ == "__main__":
    main()
