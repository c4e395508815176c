# kind: a kernel matrix of a batch with two equal rows isn't positive definite
# expect: {"fault": "value_out_of_domain", "phase": "forward", "culprits": [18, 71], "sufficient": "culprits"}
# fix: add a small noise term to the diagonal
"""Gaussian-process loss on each batch: the same measurement was entered twice. Each of the two rows is fine without the other,
and in the first passes they aren't in one batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Kernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_width = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        distance = (x[:, None] - x[None]).pow(2).sum(-1)
        return torch.exp(-distance / torch.exp(self.log_width))


def negative_log_likelihood(kernel, x, y):
    covariance = kernel(x)
    factor = torch.linalg.cholesky(covariance)
    whitened = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return whitened.pow(2).mean() + factor.diagonal().log().mean()


def main():
    torch.manual_seed(10)
    grid = torch.stack(torch.meshgrid(torch.arange(10.0), torch.arange(9.0), indexing="ij"), -1).reshape(90, 2) * 16
    grid[18] = grid[71]
    loader = DataLoader(TensorDataset(grid, torch.sin(grid.sum(1))), batch_size=9, shuffle=True)
    kernel = Kernel()
    optimizer = torch.optim.Adam(kernel.parameters(), lr=0.005)
    for epoch in range(12):
        for x, y in loader:
            loss = negative_log_likelihood(kernel, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
