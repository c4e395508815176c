# kind: a class name written differently in one row
# expect: {"fault": "dataset_error", "phase": "data", "loader": 0, "pass": 0, "batch": 10, "last_completed_step": 10, "indices": [107, 105, 22, 40, 116, 46, 19, 18], "culprits": [22], "sufficient": "culprits"}
# fix: names are lower-cased and stripped
"""The annotation file says 'Bird' once. random_split, persistent workers; the class map is a dictionary. The words of captions
are looked up with a handled KeyError all along: that is no failure."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

CLASSES = {"cat": 0, "dog": 1, "bird": 2}
WORDS = {"a": 1, "small": 2, "black": 3, "photo": 4}


def lookup(word):
    try:
        return WORDS[word]
    except KeyError:
        return 0


class Annotations(Dataset):
    def __init__(self):
        names = list(CLASSES)
        self.rows = [(names[i % 3], "a small photo of something" if i % 2 else "black one") for i in range(150)]
        self.rows[74] = ("Bird", "a photo")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        name, caption = self.rows[i]
        words = torch.zeros(5)
        for word in caption.split():
            words[lookup(word)] += 1
        return words, CLASSES[name]


def main():
    torch.manual_seed(47)
    train, val = random_split(Annotations(), [0.8, 0.2])
    loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    model = nn.Linear(5, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(2):
        for words, label in loader:
            loss = nn.functional.cross_entropy(model(words), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum((model(w).argmax(1) == y).sum().item() for w, y in DataLoader(val, batch_size=30))
        print("epoch", epoch, "right", right, "of", len(val))


if __name__ == "__main__":
    main()
