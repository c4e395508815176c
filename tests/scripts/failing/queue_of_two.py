# kind: two rare settings that only clash within one batch
# expect: {"fault": "shape_mismatch", "phase": "forward", "culprits": [20, 75], "sufficient": "culprits"}
# fix: widths are padded to the larger of the two
"""Each sample names a resampling rate, most of them 1. The batch takes the largest width and the largest stride of its samples, and
only together do they leave less than the kernel needs. A list of tensors of various lengths."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        width, stride = 3, 1
        if i == 20:
            width = 7
        if i == 75:
            stride = 4
        return torch.randn(12 + i % 3, generator=g), width, stride, i % 2


def collate(items):
    signals, widths, strides, labels = zip(*items)
    return list(signals), max(widths), max(strides), torch.tensor(labels)


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(1, 1, 7) * 0.2)
        self.out = nn.Linear(1, 2)

    def forward(self, signals, width, stride):
        rows = []
        for signal in signals:
            thinned = signal[::stride][None, None]
            rows.append(nn.functional.conv1d(thinned, self.kernel[..., :width]).amax(-1)[0])
        return self.out(torch.stack(rows))


def main():
    torch.manual_seed(1)
    loader = DataLoader(Signals(), batch_size=16, shuffle=True, collate_fn=collate)
    model = Filter()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(12):
        for signals, width, stride, label in loader:
            loss = nn.functional.cross_entropy(model(signals, width, stride), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("done", loss.item())


if __name__ == "__main__":
    main()
