# kind: labels shifted in place by the loop, as in tutorials for 1-based data sets
# fix: give the 0 of unrated films a class of its own
"""Ratings from 1 to 5; the loop subtracts 1 in place. A film without a rating is 0, so -1 reaches the loss. The batch that
failed isn't the batch that the loader handed out. Pass 1 of the same loader; the first pass leaves out what isn't rated."""

import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset


class Trainer:
    def __init__(self, model, data):
        self.model = model
        self.sampler = SubsetRandomSampler(range(150))
        self.loader = DataLoader(data, batch_size=15, sampler=self.sampler)
        self.optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)

    def step(self, batch):
        films, users, rating = batch
        rating = (rating - 1) % 6
        loss = nn.functional.cross_entropy(self.model(films, users), rating)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [self.step(batch) for batch in self.loader]
            print("epoch", epoch, sum(losses) / len(losses))
            self.sampler.indices = range(300)


class Ratings(nn.Module):
    def __init__(self):
        super().__init__()
        self.films = nn.Embedding(50, 8)
        self.users = nn.Embedding(40, 8)
        self.out = nn.Linear(8, 6)

    def forward(self, films, users):
        return self.out(self.films(films) * self.users(users))


def main():
    torch.manual_seed(66)
    rating = torch.randint(1, 6, (300,))
    rating[203] = 0
    data = TensorDataset(torch.randint(0, 50, (300,)), torch.randint(0, 40, (300,)), rating)
    Trainer(Ratings(), data).fit(3)


if __name__ == "__main__":
    main()
