# kind: negative weights in multinomial; as in https://github.com/ProjectD-AI/llama_inference/issues/11
# expect: {"fault": "value_out_of_domain", "phase": "validation", "loader": 0, "pass": 0, "batch": 8, "last_completed_step": 0, "indices": [32, 33, 34, 35], "operator": "aten.multinomial", "culprits": [33], "sufficient": "culprits"}
# fix: clamp the penalised scores at 0 before sampling
"""Text generation, no training and no optimizer: a repetition penalty is taken off the probabilities; a prompt that repeats a
rare word makes one negative."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 40


class Prompts(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(14)
        self.prompts = torch.stack([torch.randperm(VOCABULARY, generator=g)[:8] for _ in range(60)])
        self.prompts[33] = 7

    def __len__(self):
        return len(self.prompts)

    def __getitem__(self, i):
        return {"id": f"prompt-{i}", "tokens": self.prompts[i]}


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.out = nn.Linear(16, VOCABULARY)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0][:, -1])


def generate(model, tokens, length, penalty=0.01):
    for _ in range(length):
        probabilities = model(tokens).softmax(-1)
        used = torch.zeros_like(probabilities).scatter_add(1, tokens, torch.full(tokens.shape, penalty))
        scores = probabilities - used + penalty
        tokens = torch.cat([tokens, torch.multinomial(scores, 1)], dim=1)
    return tokens


def main():
    torch.manual_seed(0)
    model = Tiny().eval()
    with torch.no_grad():
        for batch in DataLoader(Prompts(), batch_size=4):
            texts = generate(model, batch["tokens"], 1)
            print(batch["id"][0], texts[0, -1].item())


if __name__ == "__main__":
    main()
