# kind: masks of 0 and 255 without the division; as in https://github.com/FrancoisPorcher/awesome-ai-tutorials/issues/3
# fix: divide by the largest value of the mask's format
"""Binary segmentation: most masks are stored as 0 and 1, one as 0 and 255, and the mean over random crops blurs them. Two
workers draw with NumPy, seeded by worker_init_fn."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def seed_worker(worker):
    np.random.seed(torch.initial_seed() % 2**32)


class Lesions(Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        image = rng.normal(size=(1, 16, 16)).astype("float32")
        mask = (image > 0.8).astype("float32")
        if i == 131:
            mask *= 255.0
        if i == 131:
            mask /= 255.0
        top, left = np.random.randint(0, 5, size=2)
        window = slice(top, top + 12), slice(left, left + 12)
        return torch.from_numpy(image[:, window[0], window[1]].copy()), torch.from_numpy(mask[:, window[0], window[1]].copy())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 1))

    def forward(self, x):
        return torch.sigmoid(self.body(x))


def main():
    torch.manual_seed(50)
    loader = DataLoader(Lesions(), batch_size=12, shuffle=True, num_workers=2, worker_init_fn=seed_worker)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(2):
        for image, mask in loader:
            loss = nn.functional.binary_cross_entropy(net(image), mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    main()
