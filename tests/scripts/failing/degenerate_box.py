# kind: a random crop leaves a box without area
# expect: {"fault": "dataset_error", "phase": "data", "loader": 0, "pass": 0, "batch": 8, "last_completed_step": 8, "indices": [18, 2, 57, 46, 50, 90, 20, 71, 53, 41], "culprits": [71], "sufficient": "culprits_with_others"}
# fix: boxes without area are dropped by the crop
"""Detection: NumPy's global generator draws the crop, in the main process. A box at the border vanishes for some draws, and the
data set's own assertion fires."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Boxes(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        image = torch.rand(1, 20, 20, generator=torch.Generator().manual_seed(i))
        box = np.array([0, 0, 3, 3] if i == 71 else [8, 8, 15, 15])
        left, top = np.random.randint(0, 5, size=2)
        box = np.clip(box - [left, top, left, top], 0, 15)
        assert box[2] > box[0] and box[3] > box[1], f"box {box.tolist()} has no area"
        return image[:, top : top + 15, left : left + 15], torch.from_numpy(box).float()


def main():
    np.random.seed(9)
    torch.manual_seed(9)
    loader = DataLoader(Boxes(), batch_size=10, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(225, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for epoch in range(5):
        for image, box in loader:
            loss = nn.functional.smooth_l1_loss(model(image), box)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
