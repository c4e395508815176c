# kind: writing into an expanded tensor
# fix: repeat instead of expand
"""A transform turns grey images into colour ones with expand, and a second one darkens a watermark in place; only one image has
a watermark. The failure is inside the data set."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Logos(Dataset):
    def __init__(self, count, marked):
        self.count, self.marked = count, marked

    def __len__(self):
        return self.count

    def colour(self, image):
        return image.repeat(3, 1, 1)

    def remove_watermark(self, image):
        image[:, 8:, 8:] -= 0.5
        return image.clamp(0, 1)

    def __getitem__(self, i):
        image = self.colour(torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(i)))
        if i in self.marked:
            image = self.remove_watermark(image)
        return image, i % 4


def main():
    torch.manual_seed(26)
    loader = DataLoader(Logos(72, {17}), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(400, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for image, label in loader:
            loss = nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
