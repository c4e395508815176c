# kind: handled and repeated batches before the failure that counts
# fix: sigmoid instead of a clamp from below
"""Too large batches raise, are caught and done again in two halves: each gets its optimizer step, so none of that is a failure. What
ends the run is a prediction above 1."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        if x.shape[0] > 10 and x[:, 0].max() > 0.95:
            raise RuntimeError("out of scratch space, use a smaller batch")
        return torch.sigmoid(self.out(x))


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy(model(x).squeeze(1), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(95)
    x = torch.rand(144, 3)
    x[90, 0] = 2.9
    loader = DataLoader(TensorDataset(x, (x[:, 1] > 0.5).float()), batch_size=12, shuffle=True)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for a, b in loader:
            try:
                loss = step(model, optimizer, a, b)
            except RuntimeError:
                half = len(a) // 2
                loss = step(model, optimizer, a[:half], b[:half]) + step(model, optimizer, a[half:], b[half:])
        print("epoch", epoch, loss)


if __name__ == "__main__":
    main()
