# kind: the generator's loss is made before the discriminator's step
# fix: compute the generator's loss after the discriminator's step
"""A small GAN with two optimizers. The generator is trained on every fifth batch, counted over the run: there the loss was
computed with discriminator weights that have been changed since."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset


class GAN:
    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
        self.discriminator = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        self.optimizer_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3)
        self.optimizer_d = torch.optim.Adam(self.discriminator.parameters(), lr=1e-3)
        self.seen = 0

    def step(self, real):
        self.seen += 1
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = self.generator(torch.randn(len(real), 2))
        train_generator = self.seen % 5 == 0
        loss_d = bce(self.discriminator(real), ones) + bce(self.discriminator(fake.detach()), zeros)
        self.optimizer_d.zero_grad()
        loss_d.backward()
        self.optimizer_d.step()
        if train_generator:
            loss_g = bce(self.discriminator(fake), ones)
            self.optimizer_g.zero_grad()
            loss_g.backward()
            self.optimizer_g.step()
        return loss_d.item()


def main():
    torch.manual_seed(16)
    loader = DataLoader(TensorDataset(torch.randn(130, 3)), batch_size=13, shuffle=True)
    gan = GAN()
    for epoch in range(2):
        losses = [gan.step(real) for (real,) in loader]
        print("epoch", epoch, sum(losses) / len(losses))


if __name__ == "__main__":
    main()
