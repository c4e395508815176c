# kind: a failing batch skipped, and the run ends well
# expect: {"fault": "dtype_mismatch", "phase": "forward", "operator": "aten.addmm", "swallowed": true, "culprits": [29], "sufficient": "culprits"}
# fix: float() where the sample is read
"""Nothing is raised in the end: the exit code is 0, one batch was never trained on."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 84

    def __getitem__(self, i):
        x = torch.randn(3, generator=torch.Generator().manual_seed(i))
        if i == 29:
            x = x.double()
        return x, i % 2


def main():
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    skipped = 0
    for x, label in DataLoader(Points(), batch_size=7, shuffle=True):
        optimizer.zero_grad()
        try:
            loss = nn.functional.cross_entropy(model(x), label)
            loss.backward()
        except RuntimeError:
            skipped += 1
            continue
        optimizer.step()
    print("done, skipped", skipped)


if __name__ == "__main__":
    main()
