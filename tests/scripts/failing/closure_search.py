# kind: a failure inside LBFGS's closure
# expect: {"fault": "index_out_of_domain", "phase": "forward", "operator": "aten.index", "culprits": [30], "sufficient": "culprits"}
# fix: the table has a row for the state 'retired'
"""A small regression by LBFGS: the model runs inside the optimizer's step, several times a batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Additive(nn.Module):
    def __init__(self, states):
        super().__init__()
        self.effect = nn.Parameter(torch.zeros(states))
        self.slope = nn.Parameter(torch.ones(()))

    def forward(self, age, state):
        return self.slope * age + self.effect[state]


def fit(model, loader, epochs):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    for epoch in range(epochs):
        for age, state, income in loader:

            def closure():
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(age, state), income)
                loss.backward()
                return loss

            value = optimizer.step(closure)
        print("epoch", epoch, value.item())


def main():
    torch.manual_seed(24)
    age, state = torch.rand(72), torch.randint(0, 4, (72,))
    state[30] = 4
    model = Additive(states=4)
    fit(model, DataLoader(TensorDataset(age, state, age + state), batch_size=12, shuffle=True), epochs=2)


if __name__ == "__main__":
    main()
