# kind: a warm-up that never ends; the guard fires epochs later
# fix: the factor is capped at 1
"""The learning rate grows by a tenth with each step and nothing stops it. Gradient-free evaluation in between, a NaN guard in the
model's wrapper."""

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset


def check(name, tensor):
    if torch.isnan(tensor).any():
        raise RuntimeError(f"{name} contains NaN in {int(torch.isnan(tensor).sum())} places")
    return tensor


def main():
    torch.manual_seed(88)
    x = torch.randn(240, 4)
    data = TensorDataset(x, (x**2).sum(1, keepdim=True))
    train, val = DataLoader(data, batch_size=24, shuffle=True), DataLoader(TensorDataset(*data[:48]), batch_size=48)
    model = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.004, momentum=0.5)
    schedule = LambdaLR(optimizer, lambda step: min(1.0, 1.1 ** (step - 20)))
    for epoch in range(12):
        for a, b in train:
            prediction = check("prediction", model(a))
            loss = nn.functional.mse_loss(prediction, b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            quality = [nn.functional.l1_loss(model(a), b).item() for a, b in val]
        print("epoch", epoch, "rate", schedule.get_last_lr(), "val", quality)


if __name__ == "__main__":
    main()
