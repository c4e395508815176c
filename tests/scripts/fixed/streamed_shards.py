# kind: a stream with one label too large
# fix: the stream maps the late label to the class list
"""An IterableDataset over shards, split between two workers. There are no sample indices: only the batch itself tells."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shards(IterableDataset):
    def __init__(self, count):
        self.count = count

    def read(self, shard):
        g = torch.Generator().manual_seed(shard)
        for record in range(12):
            label = (shard + record) % 4
            if (shard, record) == (5, 7):
                label = 0
            yield torch.randn(6, generator=g), label

    def __iter__(self):
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for shard in range(first, self.count, stride):
            yield from self.read(shard)


def main():
    torch.manual_seed(11)
    loader = DataLoader(Shards(8), batch_size=8, num_workers=2)
    model = nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
