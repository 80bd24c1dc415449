"""Seconds of a step: the mean of a block of them, and of several blocks the one that others of the machine
disturbed least."""
import time

WARM, STEPS, BLOCKS = 5, 40, 5


def mean(step):
    for _ in range(WARM):
        step()
    means = []
    for _ in range(BLOCKS):
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        means.append((time.perf_counter() - began) / STEPS)
    print("seconds a step: %.6f" % min(means))
