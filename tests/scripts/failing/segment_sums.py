# kind: more groups than the output was made for
# expect: {"fault": "index_out_of_domain", "phase": "forward", "loader": 0, "pass": 0, "batch": 8, "last_completed_step": 8, "indices": [52, 37, 32, 14, 20, 11], "operator": "aten.index_add_", "culprits": [52], "sufficient": "culprits"}
# fix: size the sums by the largest group of the batch
"""Point clouds pooled into voxels with index_add_. Spawned, persistent workers; one cloud reaches one voxel further than the
grid has."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOXELS = 27


class Clouds(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        points = torch.rand(20, 3, generator=g) * 2.99
        if i == 52:
            points[7] = torch.tensor([2.5, 2.5, 3.01])
        cell = points.long()
        return points, (cell * torch.tensor([1, 3, 9])).sum(1), i % 2


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Linear(3, 5)
        self.out = nn.Linear(VOXELS * 5, 2)

    def forward(self, points, voxel):
        hidden = self.point(points)
        grid = torch.zeros(len(points), VOXELS, 5)
        for cloud in range(len(points)):
            grid[cloud].index_add_(0, voxel[cloud], hidden[cloud])
        return self.out(grid.flatten(1))


def main():
    torch.manual_seed(8)
    loader = DataLoader(
        Clouds(), batch_size=6, shuffle=True, num_workers=1, multiprocessing_context="spawn", persistent_workers=True
    )
    model = Pooled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for points, voxel, label in loader:
            loss = nn.functional.cross_entropy(model(points, voxel), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
