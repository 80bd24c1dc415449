"""Seconds of a step, the median of those after a warm-up, by the clock that the program names."""

WARM, STEPS = 5, 40


def median(step, clock):
    seconds = []
    for _ in range(WARM + STEPS):
        began = clock()
        step()
        seconds.append(clock() - began)
    print("seconds a step: %.6f" % sorted(seconds[WARM:])[STEPS // 2])
