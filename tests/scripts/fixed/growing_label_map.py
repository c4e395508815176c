# kind: classes numbered as they are met, one more than the head has
# fix: number the classes before training, from the whole file
"""The data set numbers class names as they come along. The head has as many outputs as the file's head line says; there is one
more name. Which sample fails depends on all samples read before it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DECLARED = 5


class Species(Dataset):
    def __init__(self):
        names = ["oak", "ash", "elm", "fir", "yew"]
        self.rows = [(names[i % 5], float(i % 5)) for i in range(160)]
        self.rows[70] = ("lime", 3.0)
        self.rows[71] = ("lime", 3.0)
        self.numbers = {}
        for name, _ in self.rows:
            self.numbers.setdefault(name, len(self.numbers))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        name, height = self.rows[i]
        number = self.numbers.setdefault(name, len(self.numbers))
        return torch.tensor([height, height**0.5]), number


def main():
    torch.manual_seed(3)
    data = Species()
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(2, len(data.numbers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item(), data.numbers)


if __name__ == "__main__":
    main()
