# kind: a random jitter in a worker that leaves nothing to draw from
# expect: {"fault": "dataset_error", "phase": "data", "loader": 0, "pass": 1, "batch": 0, "last_completed_step": 15, "indices": [72, 33, 45, 101, 118, 95, 99, 55], "culprits": [45], "sufficient": "culprits_with_others"}
# fix: torch.randint(0, max(1, room), ())
"""Speed perturbation with torch's generator in two workers: slowed down, a short clip has no room left for a random start."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WINDOW = 30


class Speech(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, i):
        clip = torch.randn(36 if i == 45 else 60, generator=torch.Generator().manual_seed(i))
        speed = 0.9 + 0.4 * torch.rand(()).item()
        points = torch.arange(0, len(clip), speed).long().clamp(max=len(clip) - 1)
        clip = clip[points]
        room = len(clip) - WINDOW
        start = int(torch.randint(0, room, ()))
        return clip[start : start + WINDOW], i % 2


def main():
    torch.manual_seed(1)
    loader = DataLoader(Speech(), batch_size=8, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(WINDOW, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for epoch in range(4):
        for clip, label in loader:
            loss = nn.functional.cross_entropy(model(clip), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
