# kind: images with an alpha channel, kept together by the batch sampler
# expect: {"fault": "shape_mismatch", "phase": "forward", "loader": 0, "pass": 0, "batch": 19, "last_completed_step": 19, "indices": [64, 62, 65, 60, 61, 63], "operator": "aten.convolution", "culprits": [], "sufficient": "any"}
# fix: drop the fourth channel when an image is read
"""A sampler puts images of one shape together; a few PNG files have an alpha channel, so one batch in ten is four-channelled.
Any one image of that batch fails."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Icons(Dataset):
    def __init__(self, count):
        self.channels = [4 if 60 <= i < 66 else 3 for i in range(count)]

    def __len__(self):
        return len(self.channels)

    def __getitem__(self, i):
        image = torch.rand(self.channels[i], 10, 10, generator=torch.Generator().manual_seed(i))
        return image, i % 3


class SameShape:
    def __init__(self, channels, size):
        self.channels, self.size = channels, size

    def __iter__(self):
        groups = {}
        for i, c in enumerate(self.channels):
            groups.setdefault(c, []).append(i)
        batches = []
        for members in groups.values():
            random.shuffle(members)
            batches += [members[k : k + self.size] for k in range(0, len(members), self.size)]
        random.shuffle(batches)
        return iter(batches)


def main():
    random.seed(4)
    torch.manual_seed(4)
    icons = Icons(120)
    loader = DataLoader(icons, batch_sampler=SameShape(icons.channels, 6), num_workers=2, persistent_workers=True)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(5, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for image, label in loader:
            loss = nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
