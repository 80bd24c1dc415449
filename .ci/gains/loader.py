"""Trains on records that take longer to fetch than to learn from."""
import time

import timed
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Records(Dataset):
    """Each comes from storage that answers after two milliseconds."""

    def __len__(self):
        return 8 * (timed.WARM + timed.STEPS * timed.BLOCKS)

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((256,), float(index % 7)), float(index % 2)


model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
batches = iter(DataLoader(dataset=Records(), batch_size=8))


def step():
    inputs, targets = next(batches)
    loss = (model(inputs).squeeze(1) - targets.float()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    timed.mean(step)
