# kind: a file of the list isn't there
# fix: the list is made from the folder
"""Arrays in files; the list names one that was never written. A spawned worker raises FileNotFoundError."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Arrays(Dataset):
    def __init__(self, folder, names):
        self.folder, self.names = folder, names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        array = np.load(Path(self.folder) / self.names[i])
        return torch.from_numpy(array), torch.tensor(array.mean() > 0.5).float()


def write(folder, count):
    rng = np.random.default_rng(1)
    names = [f"part-{i:03d}.npy" for i in range(count)]
    for name in names:
        if name != "part-019.npy":
            np.save(Path(folder) / name, rng.random(6, dtype=np.float32))
    names = sorted(path.name for path in Path(folder).glob("*.npy"))
    return names


def main():
    torch.manual_seed(28)
    with tempfile.TemporaryDirectory() as folder:
        data = Arrays(folder, write(folder, 40))
        loader = DataLoader(data, batch_size=5, shuffle=True, num_workers=1, multiprocessing_context="spawn")
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("done", loss.item())


if __name__ == "__main__":
    main()
