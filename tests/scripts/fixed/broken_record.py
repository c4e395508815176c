# kind: a damaged line in a stream of JSON
# fix: damaged lines are counted and left out by the reader
"""An IterableDataset reads lines and decodes them in the main process; one line is cut off."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


def lines(count):
    for i in range(count):
        text = json.dumps({"x": [i % 3, i % 5, 1.0], "y": float(i % 2)})
        yield text[:-9] if i == 61 else text


class Reader(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for line in lines(self.count):
            if not line.endswith("}"):
                continue
            row = json.loads(line)
            yield torch.tensor(row["x"]), torch.tensor(row["y"])


def main():
    torch.manual_seed(4)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        for x, y in DataLoader(Reader(100), batch_size=10):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
