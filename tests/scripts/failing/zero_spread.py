# kind: a distribution with scale 0; message as in https://github.com/ZijieH/CG-ODE/issues/1
# expect: {"fault": "value_out_of_domain", "phase": "forward", "loader": 0, "pass": 0, "batch": 2, "last_completed_step": 2, "indices": [105, 106, 71, 9, 60, 76, 53, 22, 97, 43, 29, 98, 62, 4, 121, 69], "culprits": [76], "sufficient": "culprits"}
# fix: a floor under the measured spread
"""A probabilistic forecast is scored against each sensor's own spread over the window; one sensor was off, its spread is 0."""

import torch
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, Dataset


class Sensors(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(4000 + i)
        series = torch.randn(12, generator=g).cumsum(0)
        if i == 76:
            series[:] = 0.0
        return series[:-1], series[-1]


def negative_log_likelihood(mean, window, target):
    spread = window.std(dim=1)
    return -Normal(mean, spread).log_prob(target).mean()


def train_epoch(model, loader, optimizer):
    total = 0.0
    for window, target in loader:
        optimizer.zero_grad()
        loss = negative_log_likelihood(model(window).squeeze(1), window, target)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


if __name__ == "__main__":
    torch.manual_seed(77)
    train_loader = DataLoader(Sensors(), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(1))
    net = nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 1))
    adam = torch.optim.NAdam(net.parameters(), lr=0.002)
    for number in range(2):
        print(number, train_epoch(net, train_loader, adam))
