# kind: a division by the number of words of an empty text
# fix: max(1, len(words))
"""Mean word vectors; validation holds an empty text. The failure is in the second validation pass, which isn't cut short."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __init__(self, count, empty=None):
        self.texts = [" ".join(["word"] * (1 + i % 4)) for i in range(count)]
        if empty is not None:
            self.texts[empty] = ""

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        words = self.texts[i].split()
        total = [float(sum(len(w) + k for w in words)) for k in range(3)]
        count = max(1, len(words))
        return {"x": torch.tensor([t / count for t in total]), "y": torch.tensor(float(len(words)))}


def validate(model, loader, most):
    losses = []
    with torch.no_grad():
        for number, batch in enumerate(loader):
            if number == most:
                break
            losses.append((model(batch["x"]).squeeze(1) - batch["y"]).abs().mean().item())
    return sum(losses) / len(losses)


def main():
    torch.manual_seed(35)
    train = DataLoader(Texts(64), batch_size=16, shuffle=True)
    val = DataLoader(Texts(40, empty=26), batch_size=8)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for epoch in range(3):
        for batch in train:
            loss = (model(batch["x"]).squeeze(1) - batch["y"]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, validate(model, val, most=1 if epoch == 0 else 100))


if __name__ == "__main__":
    main()
