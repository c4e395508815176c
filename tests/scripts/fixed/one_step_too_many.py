# kind: OneCycleLR made for fewer steps than are taken; message as in https://github.com/pytorch/pytorch/issues/38170
# fix: steps_per_epoch=len(loader), which counts the incomplete batch
"""The schedule was made for floor(samples / batch size) steps an epoch; the incomplete batches of three epochs add up."""

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH = 3, 16


def main():
    torch.manual_seed(37)
    x = torch.randn(100, 3)
    loader = DataLoader(TensorDataset(x, x.prod(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = OneCycleLR(optimizer, max_lr=0.1, epochs=EPOCHS, steps_per_epoch=len(loader))
    for epoch in range(EPOCHS):
        for a, b in loader:
            loss = nn.functional.mse_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
