# kind: sentences of different lengths and the default collate
# expect: {"fault": "collate", "phase": "data", "loader": 0, "pass": 0, "batch": 2, "last_completed_step": 2, "indices": [63, 70, 72, 98, 30, 106, 112, 86, 20, 58], "culprits": [86], "sufficient": "culprits_with_others"}
# fix: truncate to the fixed length
"""All sentences were cut to ten tokens, but for one that was added by hand later."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(21)
        self.tokens = [torch.randint(0, 99, (10,), generator=g) for _ in range(130)]
        self.tokens[86] = torch.randint(0, 99, (13,), generator=g)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"tokens": self.tokens[i], "label": i % 2}


def main():
    torch.manual_seed(9)
    loader = DataLoader(Sentences(), batch_size=10, shuffle=True)
    model = nn.Sequential(nn.EmbeddingBag(99, 8), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["tokens"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
