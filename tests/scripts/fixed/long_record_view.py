# kind: view after a permute, only for records above a length
# fix: reshape instead of view
"""Long ECG records are folded into windows after channels and time were swapped; most records are short and never take that
branch. Two workers; the collate pads."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

LONG = 40


class Records(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        length = 48 if i == 112 else int(torch.randint(10, 30, (), generator=g))
        return torch.randn(length, 2, generator=g), i % 2


def pad(items):
    records, labels = zip(*items)
    return pad_sequence(records, batch_first=True), torch.tensor(labels)


class Rhythm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 6, 5, padding=2)
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        if x.shape[1] > LONG:
            x = x[:, : x.shape[1] // 8 * 8].permute(0, 2, 1)
            x = x.reshape(len(x), 2 * 8, -1)
            x = x[:, :2].permute(0, 2, 1)
        return self.out(torch.relu(self.conv(x.permute(0, 2, 1))).amax(-1))


def main():
    torch.manual_seed(33)
    loader = DataLoader(Records(), batch_size=10, shuffle=True, num_workers=2, collate_fn=pad, prefetch_factor=4)
    model = Rhythm()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
