# kind: an empty clip normalised by its own energy is NaN
# fix: x / (energy + eps)
"""Audio clips are normalised by their energy in the model; one clip is silent. The user's own check stops the run."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 208

    def __getitem__(self, i):
        clip = torch.randn(64, generator=torch.Generator().manual_seed(i)) * (0.0 if i == 150 else 1.0)
        return clip, torch.tensor(i % 4)


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, clip):
        energy = clip.pow(2).mean(-1, keepdim=True)
        return self.net(clip / (energy.sqrt() + 1e-6))


def main():
    torch.manual_seed(3)
    train, held_out = torch.utils.data.random_split(Clips(), [176, 32])
    print(len(held_out), "clips held out")
    loader = DataLoader(train, batch_size=11, shuffle=True)
    model = Normalised()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    for epoch in range(2):
        for clip, label in loader:
            loss = nn.functional.cross_entropy(model(clip), label)
            assert torch.isfinite(loss), f"loss is {loss.item()}"
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
