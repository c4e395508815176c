# kind: an image of another size meets a fixed linear layer
# expect: {"fault": "shape_mismatch", "phase": "forward", "loader": 0, "pass": 0, "batch": 32, "last_completed_step": 32, "indices": [23], "operator": "aten.addmm", "culprits": [23], "sufficient": "culprits"}
# fix: adaptive pooling before the flatten
"""Whole slides, one image a batch. All but one were scanned at 24 by 24 pixels."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slides(Dataset):
    def __init__(self, count):
        self.sizes = [24] * count
        self.sizes[23] = 28

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(1, self.sizes[i], self.sizes[i], generator=g), torch.tensor(float(i % 2))


model = nn.Sequential(
    nn.Conv2d(1, 4, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(4 * 6 * 6, 1),
)


def main():
    torch.manual_seed(30)
    loader = DataLoader(Slides(40), batch_size=1, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, nesterov=True, momentum=0.8)
    losses = []
    for epoch in range(2):
        for image, label in loader:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(image).view(-1), label)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}")


if __name__ == "__main__":
    main()
