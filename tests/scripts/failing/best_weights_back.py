# kind: the best weights are loaded back into a model that has grown
# expect: {"fault": "checkpoint_mismatch"}
# fix: the best weights are forgotten when the model grows
"""Progressive growing: from the third epoch on the net has a layer more; after it, the best weights, of a smaller net, are loaded
back. The failure is between two epochs."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(41)
    x = torch.randn(60, 3)
    train = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=20, shuffle=True)
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
    best, best_loss = None, float("inf")
    for epoch in range(5):
        if epoch == 2:
            model = nn.Sequential(model[0], nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3 if epoch == 2 else 0.01)
        total = 0.0
        for a, b in train:
            loss = nn.functional.mse_loss(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < best_loss or best is None:
            best, best_loss = copy.deepcopy(model.state_dict()), total
        elif epoch >= 2:
            model.load_state_dict(best)
        print("epoch", epoch, total)


if __name__ == "__main__":
    main()
