# kind: a U-Net's skip connection and an odd image width; as in https://github.com/qubvel-org/segmentation_models.pytorch/issues/93
# expect: {"fault": "shape_mismatch", "phase": "validation", "loader": 1, "pass": 0, "batch": 5, "last_completed_step": 6, "indices": [5], "operator": "aten.cat", "culprits": [5], "sufficient": "culprits"}
# fix: pad images to a multiple of two
"""Training crops are even; validation takes whole images one at a time, and one of them is odd."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        x = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(i))
        return x, (x > 0.5).float()


class Whole(Dataset):
    widths = [20, 24, 18, 22, 20, 21, 24, 26]

    def __len__(self):
        return len(self.widths)

    def __getitem__(self, i):
        x = torch.rand(1, 18, self.widths[i], generator=torch.Generator().manual_seed(900 + i))
        return x, (x > 0.5).float()


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x):
        skip = F.relu(self.first(x))
        deep = F.relu(self.down(F.max_pool2d(skip, 2)))
        return self.last(torch.cat([skip, self.up(deep)], dim=1))


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(F.binary_cross_entropy_with_logits(model(x), y).item() for x, y in loader) / len(loader)


def main():
    torch.manual_seed(70)
    train, val = DataLoader(Crops(), batch_size=8, shuffle=True), DataLoader(Whole(), batch_size=1, num_workers=2)
    model = UNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(2):
        model.train()
        for x, y in train:
            loss = F.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "validation", validate(model, val))


if __name__ == "__main__":
    main()
