# kind: an empty sequence makes the index of its last step -1
# fix: drop empty utterances when the list is made, or pool by a mask
"""An RNN over transcripts pools the state at each transcript's last token; one transcript is empty. Two workers, gradient
accumulation over four batches, a batch of dictionaries."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Transcripts(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(77)
        self.lengths = torch.randint(3, 14, (count,), generator=generator)
        self.lengths[129] = 1
        self.tokens = [torch.randint(1, 90, (int(n),), generator=generator) for n in self.lengths]

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"tokens": self.tokens[index], "length": int(self.lengths[index]), "speaker": index % 5}


def collate(items):
    return {
        "tokens": pad_sequence([item["tokens"] for item in items], batch_first=True),
        "length": torch.tensor([item["length"] for item in items]),
        "speaker": torch.tensor([item["speaker"] for item in items]),
    }


class SpeakerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(90, 16, padding_idx=0)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, batch):
        states, _ = self.rnn(self.embed(batch["tokens"]))
        last = (batch["length"] - 1)[:, None, None].expand(-1, 1, states.shape[-1])
        return self.head(states.gather(1, last).squeeze(1))


def main():
    torch.manual_seed(31)
    loader = DataLoader(Transcripts(256), batch_size=8, shuffle=True, num_workers=2, collate_fn=collate)
    net = SpeakerNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    group = 4
    for epoch in range(2):
        optimizer.zero_grad()
        for number, batch in enumerate(loader, start=1):
            loss = nn.functional.cross_entropy(net(batch), batch["speaker"])
            (loss / group).backward()
            if number % group == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
