"""Seconds of a step, the mean of those after a warm-up, by the clock that the program names."""

WARM, STEPS = 5, 40


def mean(step, clock):
    for _ in range(WARM):
        step()
    began = clock()
    for _ in range(STEPS):
        step()
    print("seconds a step: %.6f" % ((clock() - began) / STEPS))
