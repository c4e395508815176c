# kind: an edge that points past the last node
# expect: {"fault": "index_out_of_domain", "phase": "forward", "loader": 0, "pass": 0, "batch": 2, "last_completed_step": 2, "indices": [22, 39, 25, 43, 37], "operator": "aten.index_select", "culprits": [37], "sufficient": "culprits"}
# fix: count the nodes from the edges as well
"""Message passing over small graphs put side by side. The sampler hands out whole batches (batch_size=None), and the data set
joins the graphs itself. One graph's edge list is 1-based, which shows only when that graph is the last of its batch."""

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Molecules(Dataset):
    def __init__(self, count):
        g = torch.Generator().manual_seed(9)
        self.graphs = []
        for i in range(count):
            nodes = int(torch.randint(3, 8, (), generator=g))
            ring = torch.arange(nodes)
            edges = torch.stack([ring, ring.roll(1)])
            if i == 37:
                edges = edges + 1
            self.graphs.append((torch.randn(nodes, 4, generator=g), edges, float(nodes)))

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, indices):
        features, edges, targets, owner, offset = [], [], [], [], 0
        for place, i in enumerate(indices):
            x, e, y = self.graphs[i]
            features.append(x)
            edges.append(e + offset)
            targets.append(y)
            owner += [place] * len(x)
            offset += len(x)
        return torch.cat(features), torch.cat(edges, 1), torch.tensor(owner), torch.tensor(targets)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Linear(2 * width, width)

    def forward(self, x, edges):
        source, goal = edges
        messages = self.message(x.index_select(0, source))
        incoming = torch.zeros_like(x).index_add(0, goal, messages)
        return torch.relu(self.update(torch.cat([x, incoming], 1)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(4), Layer(4)])
        self.out = nn.Linear(4, 1)

    def forward(self, x, edges, owner, graphs):
        for layer in self.layers:
            x = layer(x, edges)
        pooled = torch.zeros(graphs, 4).index_add(0, owner, x)
        return self.out(pooled).squeeze(1)


def main():
    torch.manual_seed(3)
    data = Molecules(60)
    loader = DataLoader(data, sampler=BatchSampler(RandomSampler(data), 5, drop_last=False), batch_size=None)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x, edges, owner, y in loader:
            loss = nn.functional.l1_loss(model(x, edges, owner, len(y)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
