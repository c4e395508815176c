# kind: a decoder that takes the worker down; as in https://github.com/rbgirshick/py-faster-rcnn/issues/884
# expect: {"fault": "dataloader_worker", "phase": "data", "loader": 0, "pass": 0, "batch": 4, "last_completed_step": 4, "indices": [57, 72, 76, 13, 51, 53, 42, 16, 66], "culprits": [57], "sufficient": "culprits"}
# fix: the damaged file is left out of the list
"""A native decoder ends the whole process on one damaged file. Reading is slow, so the loop waits for the workers."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DAMAGED = {57}


def native_decoder(i):
    time.sleep(0.004)
    if i in DAMAGED:
        os._exit(3)
    return torch.rand(12, generator=torch.Generator().manual_seed(i))


class Videos(Dataset):
    def __init__(self, count):
        self.files = list(range(count))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return native_decoder(self.files[i]), self.files[i] % 2


def main():
    torch.manual_seed(5)
    loader = DataLoader(Videos(90), batch_size=9, shuffle=True, num_workers=1, prefetch_factor=1)
    model = nn.Linear(12, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for clip, label in loader:
        loss = nn.functional.cross_entropy(model(clip), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", loss.item())


if __name__ == "__main__":
    main()
