"""Trains, and keeps the error of every example by reading each from its tensor."""
import timed
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(2048, 64)
history = []


def step():
    values = model(inputs).squeeze(1).pow(2)
    optimizer.zero_grad()
    values.mean().backward()
    optimizer.step()
    history.append(max(x.item() for x in values))


if __name__ == "__main__":
    timed.mean(step)
