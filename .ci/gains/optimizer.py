"""Trains a model of many small parameters, which the optimizer updates one by one."""
import timed
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(60)])
optimizer = torch.optim.AdamW(params=model.parameters(), lr=1e-4)
inputs = torch.randn(16, 32)


def step():
    loss = model(inputs).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    timed.mean(step)
