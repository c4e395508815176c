# kind: a checkpoint with another number of classes
# fix: leave the head's weights out of what is loaded
"""Fine-tuning from a checkpoint whose head has ten classes: fails before any data is read."""

import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(x))


def pretrained():
    file = io.BytesIO()
    torch.save(Net(10).state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def main():
    torch.manual_seed(0)
    model = Net(3)
    weights = pretrained()
    weights = {key: value for key, value in weights.items() if not key.startswith("head.")}
    model.load_state_dict(weights, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(30, 4), torch.randint(0, 3, (30,)))
    for x, y in DataLoader(data, batch_size=10):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", loss.item())


if __name__ == "__main__":
    main()
