# kind: a damaged length field asks for terabytes
# expect: {"fault": "host_memory", "phase": "forward", "loader": 0, "pass": 0, "batch": 13, "last_completed_step": 13, "indices": [68, 59, 70, 13, 53, 50], "culprits": [53], "sufficient": "culprits"}
# fix: lengths are checked against the file's size when they are read
"""The model pads to the longest length of the batch; one length was read from a damaged header."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, x, lengths):
        room = torch.zeros(len(x), int(lengths.max()), 3)
        room[:, :4] = x
        return self.net(room[:, :4].mean(1))


def main():
    torch.manual_seed(13)
    lengths = torch.randint(4, 9, (90,))
    lengths[53] = 2**41
    data = TensorDataset(torch.randn(90, 4, 3), lengths, torch.randint(0, 2, (90,)))
    model = Padded()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        for x, n, y in DataLoader(data, batch_size=6, shuffle=True):
            loss = nn.functional.cross_entropy(model(x, n), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
