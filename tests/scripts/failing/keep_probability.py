# kind: a probability a little above 1 handed to bernoulli
# expect: {"fault": "value_out_of_domain", "phase": "forward", "loader": 0, "pass": 0, "batch": 2, "last_completed_step": 2, "indices": [68, 13, 111, 3, 6, 98, 36, 22, 33, 44], "operator": "aten.bernoulli", "culprits": [44], "sufficient": "culprits"}
# fix: normalise by the largest count of the whole data set
"""Word dropout: words are kept with a probability by their count, divided by the largest count of the first thousand texts. One
later text has a more frequent word."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self, largest):
        super().__init__()
        self.largest = largest
        self.embed = nn.Embedding(30, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, words, counts):
        keep = torch.bernoulli(counts / self.largest)
        return self.out((self.embed(words) * keep[..., None]).mean(1))


def main():
    torch.manual_seed(91)
    words = torch.randint(0, 30, (120, 6))
    counts = torch.randint(1, 50, (120, 6)).float()
    counts[44, 5] = 51.0
    largest = counts[:40].max()
    model = Model(largest)
    optimizer = torch.optim.Adamax(model.parameters())
    data = TensorDataset(words, counts, torch.randint(0, 2, (120,)))
    for epoch in range(2):
        for w, c, y in DataLoader(data, batch_size=10, shuffle=True, drop_last=True):
            loss = nn.functional.cross_entropy(model(w, c), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
