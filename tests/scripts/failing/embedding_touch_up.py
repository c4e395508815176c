# kind: a parameter changed in place in a rare branch
# expect: {"fault": "inplace_autograd", "phase": "forward", "loader": 0, "pass": 0, "batch": 5, "last_completed_step": 5, "indices": [54, 90, 33, 32, 65, 91, 58, 66, 27, 81, 44, 82], "culprits": [58], "sufficient": "culprits"}
# fix: under no_grad
"""The padding row of an embedding is zeroed again whenever a text holds padding; only one text does. A leaf that requires grad
can't be changed in place. Batches of strings, tokenised in the loop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = {"<pad>": 0, "good": 1, "bad": 2, "fine": 3, "poor": 4, "meal": 5, "room": 6}


class Reviews(Dataset):
    def __init__(self):
        good, bad, nouns = ["good", "fine"], ["bad", "poor"], ["meal", "room"]
        self.rows = [(f"{(good if i % 2 else bad)[i // 2 % 2]} {nouns[i % 3 % 2]}", i % 2) for i in range(96)]
        self.rows[58] = ("bad <pad>", 0)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), 6)
        self.out = nn.Linear(6, 2)

    def forward(self, ids):
        if (ids == 0).any():
            self.words.weight[0].zero_()
        return self.out(self.words(ids).sum(1))


def main():
    torch.manual_seed(29)
    loader = DataLoader(Reviews(), batch_size=12, shuffle=True)
    model = Sentiment()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(2):
        for texts, label in loader:
            ids = torch.tensor([[WORDS[word] for word in text.split()] for text in texts])
            loss = nn.functional.cross_entropy(model(ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
