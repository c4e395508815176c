# kind: batch norm on a batch of one; as in https://github.com/fastai/fastai/issues/1352
# fix: drop_last=True
"""129 samples in batches of 16: the last batch has one sample, and BatchNorm1d refuses it in training. A trainer class."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, train_set, batch_size=16):
        self.model = model
        self.loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        self.history = []

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.model(x).squeeze(-1), y)

    def run_epoch(self):
        self.model.train()
        total = 0.0
        for batch in self.loader:
            loss = self.training_step(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.history.append(total / len(self.loader))

    def fit(self, epochs):
        for epoch in range(epochs):
            self.run_epoch()
            print(f"epoch {epoch}: {self.history[-1]:.4f}")


def main():
    torch.manual_seed(12)
    x = torch.randn(129, 5)
    model = nn.Sequential(nn.Linear(5, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    Trainer(model, TensorDataset(x, x.norm(dim=1))).fit(3)


if __name__ == "__main__":
    main()
