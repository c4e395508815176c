# kind: few-shot episodes, a query class that the support set lacks
# fix: queries are drawn from the support set's classes
"""Nested loaders: for each support set all queries are gone through. One query belongs to a class of which there is no prototype,
and the user's own check raises ValueError."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def prototypes(features, label):
    return {int(c): features[label == c].mean(0) for c in label.unique()}


def episode_loss(embed, table, x, label):
    unknown = sorted({int(c) for c in label} - set(table))
    if unknown:
        raise ValueError(f"no prototype for class {unknown[0]}")
    centres = torch.stack([table[c] for c in sorted(table)])
    return nn.functional.cross_entropy(-torch.cdist(embed(x), centres), label)


def main():
    torch.manual_seed(77)
    support = TensorDataset(torch.randn(36, 5), torch.arange(36) % 3)
    labels = torch.arange(20) % 3
    queries = TensorDataset(torch.randn(20, 5), labels)
    embed = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = torch.optim.Adam(embed.parameters(), lr=0.01)
    outer = DataLoader(support, batch_size=12)
    inner = DataLoader(queries, batch_size=5, sampler=torch.utils.data.RandomSampler(queries, num_samples=10))
    for episode, (sx, sy) in enumerate(outer):
        for qx, qy in inner:
            loss = episode_loss(embed, prototypes(embed(sx), sy), qx, qy)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("episode", episode, loss.item())


if __name__ == "__main__":
    main()
