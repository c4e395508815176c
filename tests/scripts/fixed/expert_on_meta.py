# kind: weights of a rarely used expert that were never loaded
# fix: every expert is made on the CPU
"""A mixture of experts whose experts are made on the meta device and filled when the checkpoint has them. The fourth has no
weights, and one sample is routed to it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Experts(nn.Module):
    def __init__(self, count, loaded):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 2, device="meta") for _ in range(count))
        for i in loaded:
            self.experts[i].to_empty(device="cpu")
            self.experts[i].reset_parameters()

    def forward(self, x, route):
        rows = [self.experts[int(r)](row) for row, r in zip(x, route)]
        return torch.stack(rows)


def main():
    torch.manual_seed(23)
    x = torch.randn(120, 4)
    route = torch.randint(0, 3, (120,))
    route[99] = 3
    loader = DataLoader(TensorDataset(x, route, torch.randint(0, 2, (120,))), batch_size=8, shuffle=True)
    model = Experts(4, loaded=range(4))
    trained = [p for p in model.parameters() if not p.is_meta]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for epoch in range(2):
        for a, r, y in loader:
            loss = nn.functional.cross_entropy(model(a, r), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
