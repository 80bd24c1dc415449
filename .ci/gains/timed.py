"""Seconds of a step: the mean of a block of them, and of several blocks the one that others of the machine
disturbed least. Several programs take turns, so that others disturb each of them alike."""
import importlib
import sys
import time

WARM, STEPS, BLOCKS = 5, 40, 5


def mean(*steps):
    for step in steps:
        for _ in range(WARM):
            step()
    means = [[] for _ in steps]
    for _ in range(BLOCKS):
        for step, found in zip(steps, means):
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            found.append((time.perf_counter() - began) / STEPS)
    for found in means:
        print("seconds a step: %.6f" % min(found))


if __name__ == "__main__":
    mean(*[importlib.import_module(name).step for name in sys.argv[1:]])
