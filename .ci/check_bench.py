"""Sends load to a real server, llama.cpp's own with a tiny model, and checks relations that hold on any
machine: exact token counts, no errors, fewer places raise the time to first token and not the time per
token, our time per token is the server's own. Never times.

Usage: check_bench.py GPUWISE SERVE.py MODEL.gguf    (run by the Python that has xllamacpp)
"""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ISL, OSL = 96, 48
# Processes of other jobs disturb single runs: a relation must hold in one of so many.
TRIES = 3


class Server:
    """The server, with so many requests at once."""

    def __init__(self, script, model, slots):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, script, model, "--slots", str(slots)],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            self.log.seek(0)
            sys.exit(f"the server ended:\n{self.log.read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


class Checks:
    """What was checked; a failure does not hide the ones after it."""

    def __init__(self):
        self.failed = []

    def that(self, holds, what):
        print(f"{'ok  ' if holds else 'FAIL'}  {what}")
        if not holds:
            self.failed.append(what)


def bench(gpuwise, address, *flags, code=0):
    """The saved runs and the records of a load."""
    with tempfile.TemporaryDirectory() as folder:
        saved, records, page = (os.path.join(folder, name) for name in ("run.json", "run.csv", "run.html"))
        command = [gpuwise, "bench", f"{address}/v1", *map(str, flags)]
        done = subprocess.run(
            [*command, "--save", saved, "--records", records, "--html", page],
            capture_output=True, text=True,
        )
        if done.returncode != code:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
        if not os.path.exists(saved):
            return None, [], done
        assert pathlib.Path(page).read_text().startswith("<!"), "the report is a page"
        with open(records, newline="") as file:
            rows = list(csv.DictReader(file))
        return json.loads(pathlib.Path(saved).read_text())["result"], rows, done


def median(values):
    values = sorted(values)
    if not values:
        sys.exit("no request has this figure")
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def ttft(rows):
    return median(float(row["first_token_s"]) - float(row["due_s"]) for row in rows)


def tpot(rows):
    spans = (float(row["end_s"]) - float(row["first_token_s"]) for row in rows)
    return median(span / (OSL - 1) for span in spans)


def lengths(check, what, runs, rows):
    """Every request is answered, and as long as asked."""
    outcomes = [run["groups"][0]["outcomes"] for run in runs["runs"]]
    check.that(
        all(sum(one.values()) == one["completed"] > 0 for one in outcomes), f"{what}: no errors: {outcomes}"
    )
    wrong = [row for row in rows if (row["input"], row["output"]) != (row["requested_input"], row["requested_output"])]
    check.that(not wrong, f"{what}: {len(rows)} requests are as long as asked, by the server's count")
    uneven = [row for row in rows if row["pieces"] not in ("0", row["output"])]
    check.that(not uneven, f"{what}: a piece for every token")


def concurrencies(check, gpuwise, wide):
    runs, rows, _ = bench(gpuwise, wide, "--concurrency", "1,4,16", "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--requests", 120)
    lengths(check, "1, 4 and 16 in flight", runs, rows)
    rungs = runs["ladder"]["rungs"]
    check.that(
        all(0.7 * rung["load"] <= rung["mean_concurrent"] <= 1.001 * rung["load"] for rung in rungs),
        f"as many concurrent requests as asked: {[rung['mean_concurrent'] for rung in rungs]}",
    )
    firsts = [rung["ttft_seconds"] for rung in rungs]
    check.that(firsts[0] < firsts[2], f"more in flight wait longer: {firsts}")


def rates(check, gpuwise, wide):
    runs, rows, _ = bench(
        gpuwise, wide, "--rate", "10,30", "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--duration", "6s", "--slo", "ttft=p95:60s,tpot=p95:60s"
    )
    lengths(check, "10 and 30 requests/s", runs, rows)
    check.that(all(run["attainment"]["kept"] for run in runs["runs"]), "an easy promise is kept")
    _, again, _ = bench(gpuwise, wide, "--rate", "10,30", "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--duration", "6s")
    due = lambda list: sorted((float(row["due_s"]), row["requested_output"]) for row in list)
    check.that(due(rows) == due(again), "the same seed gives the same schedule")
    late = [float(row["sent_s"]) - float(row["due_s"]) for row in rows]
    check.that(min(late) >= 0, "nothing is sent before it is due")
    missed = ("--rate", 10, "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--duration", "2s", "--slo", "ttft=p50:1us")
    runs, _, _ = bench(gpuwise, wide, *missed, code=1)
    check.that(runs["runs"][0]["attainment"]["kept"] is False, "an impossible promise is missed, and exit code 1 says so")


def places(check, gpuwise, wide, narrow):
    load = ("--concurrency", 16, "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--requests", 160)
    for attempt in range(TRIES):
        _, many, _ = bench(gpuwise, wide, *load)
        _, few, _ = bench(gpuwise, narrow, *load)
        found = (ttft(few) / ttft(many), tpot(few) / tpot(many))
        if found[0] > 1.5 and found[1] < 1.2:
            break
    check.that(found[0] > 1.5, f"a quarter of the places raises the time to first token: {found[0]:.2f} times")
    check.that(found[1] < 1.2, f"and not the time per token: {found[1]:.2f} times")


def own_times(check, gpuwise, wide):
    """The server says what it took itself: ours is that, and the way through the network."""
    for attempt in range(TRIES):
        _, rows, _ = bench(gpuwise, wide, "--concurrency", 4, "--isl", f"constant:{ISL}", "--osl", f"constant:{OSL}", "--requests", 200)
        told = [row for row in rows if row["server_token_s"]]
        ratio = tpot(told) / median(float(row["server_token_s"]) for row in told)
        # It divides by all tokens, also by the first, which takes no step of its own.
        ratio *= (OSL - 1) / OSL
        if abs(ratio - 1) < 0.05:
            break
    check.that(abs(ratio - 1) < 0.05, f"our time per token is the server's own: {ratio:.3f} times")


def shapes(check, gpuwise, wide):
    runs, rows, _ = bench(
        gpuwise, wide, "--concurrency", 2, "--isl", "constant:40", "--osl", "constant:16", "--turns", 3, "--think", "0s", "--requests", 24
    )
    one = runs["runs"][0]
    check.that(one["groups"][0]["outcomes"]["completed"] == 24, "conversations are answered")
    later = [row for row in rows if int(row["request"]) % 3 != 0 and int(row["input"]) > 60]
    check.that(
        later and all(int(row["cached"]) > 40 for row in later), "later rounds find what was said before in the cache"
    )
    for flags in (("--interface", "completions"), ("--interface", "chat"), ("--no-stream",)):
        runs, rows, _ = bench(gpuwise, wide, "--rate", 20, "--isl", f"constant:{ISL}", "--osl", "constant:8", "--requests", 20, *flags)
        lengths(check, " ".join(flags), runs, rows)
    runs, rows, _ = bench(gpuwise, wide, "--rate", "5..80", "--isl", f"constant:{ISL}", "--osl", "constant:16", "--duration", "3s", "--points", 4, "--slo", "ttft=p95:60s")
    check.that(
        runs["ladder"]["knee"]["nominal"] == 80 and len(runs["runs"]) <= 4, "the search climbs to the end of its range"
    )


def interrupted(check, gpuwise, wide):
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "run.json")
        command = [gpuwise, "bench", f"{wide}/v1", "--concurrency", "2", "--isl", "64", "--osl", "32", "--duration", "60s", "--save", saved]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        outcomes = json.loads(pathlib.Path(saved).read_text())["result"]["runs"][0]["groups"][0]["outcomes"]
        check.that(
            process.returncode == 0 and outcomes["completed"] > 0, f"Ctrl-C keeps what was measured: {outcomes}"
        )


def main():
    gpuwise, script, model = sys.argv[1:]
    check = Checks()
    with Server(script, model, 16) as wide:
        concurrencies(check, gpuwise, wide.address)
        rates(check, gpuwise, wide.address)
        own_times(check, gpuwise, wide.address)
        shapes(check, gpuwise, wide.address)
        interrupted(check, gpuwise, wide.address)
        with Server(script, model, 4) as narrow:
            places(check, gpuwise, wide.address, narrow.address)
    _, _, gone = bench(gpuwise, wide.address, "--rate", 5, "--wait", "0s", code=2)
    check.that("connection refused" in gone.stderr, "a server that is gone is said")
    if check.failed:
        sys.exit(f"{len(check.failed)} relations do not hold")


if __name__ == "__main__":
    main()
