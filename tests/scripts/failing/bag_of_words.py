# kind: a token id beyond the table of nn.EmbeddingBag
# expect: {"fault": "index_out_of_domain", "phase": "forward", "loader": 0, "pass": 0, "batch": 14, "last_completed_step": 14, "indices": [69, 1, 26, 49, 56, 57, 40, 150, 92, 6, 121, 140], "operator": "aten._embedding_bag", "culprits": [140], "sufficient": "culprits"}
# fix: num_embeddings from the vocabulary, its special tokens included
"""News classifier: all tokens of a batch in one vector, with offsets. Settings by argparse, no main guard, a scheduler; the
'unknown' token was added to the vocabulary after the size was taken."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=12)
parser.add_argument("--seed", type=int, default=23)
args = parser.parse_args()

torch.manual_seed(args.seed)
words = [f"w{n}" for n in range(120)]
vocabulary = {word: number for number, word in enumerate(words)}
size = len(vocabulary)
vocabulary["<unk>"] = len(vocabulary)

articles = []
for i in range(200):
    picks = torch.randint(0, 120, (4 + i % 9,), generator=torch.Generator().manual_seed(i)).tolist()
    text = [words[p] for p in picks]
    if i == 140:
        text[2] = "covfefe"
    articles.append((" ".join(text), i % 4))


def collate(rows):
    ids, offsets, labels = [], [], []
    for text, label in rows:
        offsets.append(len(ids))
        ids += [vocabulary.get(word, vocabulary["<unk>"]) for word in text.split()]
        labels.append(label)
    return torch.tensor(ids), torch.tensor(offsets), torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bag = nn.EmbeddingBag(rows, 16, mode="max")
        self.out = nn.Linear(16, 4)

    def forward(self, ids, offsets):
        return self.out(self.bag(ids, offsets))


loader = DataLoader(articles, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
model = Classifier(size)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for epoch in range(args.epochs):
    for ids, offsets, labels in loader:
        loss = nn.functional.cross_entropy(model(ids, offsets), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    scheduler.step()
    print("epoch", epoch, "rate", scheduler.get_last_lr()[0], "loss", round(loss.item(), 3))
