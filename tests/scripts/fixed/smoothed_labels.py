# kind: one-hot labels made by hand with scatter_, a class more than counted
# fix: count the classes over all years
"""Label smoothing by scatter_. The curriculum adds a year of data each epoch, through a new loader; the class count comes from
the first year."""

import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset


def year(number, count=48):
    g = torch.Generator().manual_seed(100 + number)
    label = torch.randint(0, 7, (count,), generator=g)
    if number == 1:
        label[40] = 7
    return TensorDataset(torch.randn(count, 6, generator=g) + label[:, None] * 0.3, label)


class SmoothLoss(nn.Module):
    def __init__(self, classes, amount=0.1):
        super().__init__()
        self.classes = classes
        self.amount = amount

    def forward(self, logits, label):
        target = torch.full_like(logits, self.amount / (self.classes - 1))
        target.scatter_(1, label.unsqueeze(1), 1.0 - self.amount)
        return -(target * logits.log_softmax(1)).sum(1).mean()


def main():
    torch.manual_seed(5)
    years = [year(n) for n in range(3)]
    classes = max(int(y.tensors[1].max()) for y in years) + 1
    model = nn.Linear(6, classes)
    criterion = SmoothLoss(classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        seen = ConcatDataset(years[: epoch + 1])
        total = 0.0
        for x, label in DataLoader(seen, batch_size=8, shuffle=True):
            loss = criterion(model(x), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("epoch", epoch, "of", len(seen), "samples:", round(total, 3))


if __name__ == "__main__":
    main()
