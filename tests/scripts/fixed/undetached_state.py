# kind: a recurrent state carried over; as in https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57
# fix: state = state.detach()
"""Truncated backpropagation through time: the state is handed from batch to batch with its graph. The first batch is fine."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(34)
series = torch.sin(torch.arange(0, 120.0) / 5)
pieces = series.view(12, 10)
loader = DataLoader(TensorDataset(pieces[:, :-1, None], pieces[:, 1:, None]), batch_size=2)
rnn = nn.GRU(1, 8, batch_first=True)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
state = torch.zeros(1, 2, 8)
for epoch in range(3):
    for x, y in loader:
        output, state = rnn(x, state)
        loss = nn.functional.mse_loss(head(output), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = state.detach()
    print(epoch, loss.item())
