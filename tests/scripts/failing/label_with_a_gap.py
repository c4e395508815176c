# kind: one missing label turns a batch's labels into floats
# expect: {"fault": "dtype_mismatch", "phase": "forward", "loader": 0, "pass": 0, "batch": 15, "last_completed_step": 15, "indices": [26, 82, 55, 120, 94, 35, 49], "operator": "aten.nll_loss_forward", "culprits": [94], "sufficient": "culprits"}
# fix: labels are made int when the table is read, and missing ones are dropped
"""Labels come from a table with a gap that was filled by the column's mean: 1.0 among ints. torch.tensor(list) then makes the
whole batch float."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(6)
        self.rows = [{"x": torch.randn(4, generator=g).tolist(), "label": i % 3} for i in range(140)]
        self.rows[94]["label"] = 1.0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    return torch.tensor([row["x"] for row in rows]), torch.tensor([row["label"] for row in rows])


def main():
    torch.manual_seed(81)
    loader = DataLoader(Table(), batch_size=7, shuffle=True, collate_fn=collate)
    model = nn.Sequential(nn.Linear(4, 10), nn.SiLU(), nn.Linear(10, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.004)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    for epoch in range(2):
        for x, label in loader:
            loss = nn.functional.cross_entropy(model(x), label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        print("epoch", epoch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
