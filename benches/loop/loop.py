#!/usr/bin/env python3
"""The loop, from the command line alone: a lease that is too large is measured, proposed a smaller size,
switched, proven and billed less; what was measured corrects the next plan.

    python3 benches/loop/loop.py target/debug/gpuwise

A simulated fleet serves an 8B model whose engine is a fifth slower than we predict. Every claim is held to
figures; the first that does not hold ends the script with 1. Needs Python alone.
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime

TRUE_SPEED = 0.8
# Simulated seconds in a second: a day takes 12 s.
SPEED = 7200
# At this rate a GPU of the predicted speed is enough, and one of the true speed is not.
RATE = 30
TRAFFIC = ["--model", "llama-3.1-8b", "--rate", str(RATE), "--isl", "1000", "--osl", "200"]
SLO = ["--ttft", "p95:1s", "--tpot", "p95:32ms"]
FLEET = """
name = "loop"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n{1..3}"
gpus = "8xH100"
cpu = 128
memory = "2TiB"
"""


class Loop:
    def __init__(self, binary, folder):
        self.binary, self.folder = os.path.abspath(binary), folder
        self.env = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "XDG_CONFIG_HOME": folder + "/config"}
        self.claims = 0
        with open(folder + "/fleet.toml", "w") as file:
            file.write(FLEET)
        self.daemon = subprocess.Popen(
            [self.binary, "--offline", "serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml"]
            + ["--store", f"sqlite://{folder}/log.db", "--speed", str(SPEED)]
            + ["--true-speed", str(TRUE_SPEED), "--review-every", "6h", "--proof", "2d"],
            cwd=folder, env=self.env, stderr=subprocess.PIPE, text=True)
        for line in self.daemon.stderr:
            if "Broker at " in line:
                self.env["GPUWISE_URL"] = line.split("Broker at ")[1].split(",")[0]
                break
        else:
            sys.exit("the broker did not start")

    def run(self, *arguments, codes=(0,)):
        done = subprocess.run([self.binary, "--offline", *arguments], cwd=self.folder, env=self.env,
                              capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise SystemExit(f"gpuwise {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def json(self, *arguments, codes=(0,)):
        return json.loads(self.run(*arguments, "--format", "json", codes=codes))

    def until(self, what, look, limit=60):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            found = look()
            if found is not None:
                return found
            time.sleep(0.2)
        raise SystemExit(f"never within {limit} s: {what}")

    def hold(self, claim, figure, low, high):
        ok = low <= figure <= high
        print(f"{'ok ' if ok else 'NOT'} {claim}: {figure:.6g} (to be {low:.6g} to {high:.6g})", flush=True)
        if not ok:
            raise SystemExit(1)
        self.claims += 1

    def charged(self, lease):
        """What a lease has cost, of all statements, and the broker's time of it in hours."""
        shown = self.json("lease", "show", lease)
        months, total, until = months_since(shown["requested_at"]), 0.0, None
        for month in months:
            statement = self.json("statement", "chat", "--month", month)
            for line in statement["lines"]:
                if line.get("lease") == lease and "charge" in line:
                    total += float(line["charge"].split()[0])
                    until = statement["until"]
        return total, hours(until), shown

    def rate_of(self, lease, seconds):
        """Money an hour of a lease by its statements, over so many real seconds."""
        before, start, _ = self.charged(lease)
        time.sleep(seconds)
        after, end, _ = self.charged(lease)
        return (after - before) / (end - start)

    def gpus(self, lease):
        return len(self.json("lease", "show", lease)["gpus"])


def hours(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() / 3600


def months_since(text):
    """Months from a moment on: enough for what a run lasts."""
    year, month = int(text[:4]), int(text[5:7])
    return [f"{year + (month + more - 1) // 12}-{(month + more - 1) % 12 + 1:02}" for more in range(2)]


def money(text):
    return float(text.split()[0])


def slo_events(loop, slo):
    return {one["indicator"]: one for one in loop.json("slo", "show", slo, codes=(0, 1))["items"][0]["objectives"]}


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        apart = folder + "/naive"
        os.mkdir(apart)
        loop, naive = Loop(binary, folder), Loop(binary, apart)
        try:
            steps(loop, naive, folder)
        finally:
            for one in (loop, naive):
                one.daemon.terminate()
                one.daemon.wait()
        print(f"the loop is closed: {loop.claims + naive.claims} claims held")


def steps(loop, naive, folder):
    loop.run("tenant", "create", "chat")

    print("-- a lease that is too large")
    big = loop.json("lease", "request", "--tenant", "chat", "--gpu", "8xH100", *TRAFFIC, *SLO)["id"]
    loop.until("it serves", lambda: loop.json("lease", "show", big)["state"] == "active" or None)
    loop.hold("GPUs at first", loop.gpus(big), 8, 8)

    print("-- telemetry, and a proposal")
    proposal = loop.until("a proposal", lambda: next(iter(loop.json("proposal", "list")["items"]), None))
    saving = proposal["saving"]
    loop.hold("GPUs that are proposed", saving["gpus_after"], 2, 3)
    before = loop.rate_of(big, 4)
    loop.hold("money an hour, by statements, before", before, 20 * 0.999, 20 * 1.001)
    usage = loop.json("usage", "show", big)
    loop.hold("requests a second that were measured", usage["rate"], RATE - 0.1, RATE + 0.1)
    loop.hold("share of the time that was measured", usage["measured"], 0.8, 1.0)

    print("-- accepted, switched, the old one drained")
    loop.run("proposal", "accept", proposal["id"], "--reason", "as proposed")
    small = loop.until("a successor that serves", lambda: next(
        (one["successor"] for one in loop.json("proposal", "list")["items"]
         if one["id"] == proposal["id"] and one["state"] == "watched"), None))
    loop.hold("GPUs now", loop.gpus(small), saving["gpus_after"], saving["gpus_after"])
    after = loop.rate_of(small, 4)
    loop.hold("money an hour that is saved, by statements, over the predicted",
              (before - after) / money(saving["per_hour"]), 0.999, 1.001)

    print("-- proven over the next days")
    loop.until("it is proven", lambda: loop.json("proposal", "list")["items"][0]["state"] == "proven" or None)
    proven = loop.json("proposal", "list")["items"][0]
    low, high = money(saving["low"]), money(saving["high"])
    loop.hold("saved by the books over the proof", money(proven["saved"]), low, high)
    for word, one in slo_events(loop, "S-1").items():
        loop.hold(f"{word}: share of good requests since the beginning", one["good"], 0.95, 1)
        loop.hold(f"{word}: left of the error budget", one["budget_left"], 0.0001, 1)
    now = loop.json("usage", "show", small)
    loop.hold("TPOT p95 in seconds on the smaller slice", now["tpot_p95"], 0, 0.032)

    print("-- the model is recalibrated")
    export = loop.run("store", "export", "--store", f"sqlite://{folder}/log.db")
    learned = [json.loads(line)["event"]["learned"] for line in export.splitlines() if '"learned"' in line]
    rows = list(csv.DictReader(io.StringIO(learned[0]["rows"])))
    with open(folder + "/learned.csv", "w") as file:
        file.write(learned[0]["rows"])
    told = csv.DictReader(io.StringIO(loop.run("predict", "learned.csv")))
    predicted = {row["id"]: float(row["value"]) for row in told}
    for row in rows:
        slower = float(row["value"]) / predicted[row["id"]]
        loop.hold(f"{row['metric']}: measured over predicted", slower, 0.93 / TRUE_SPEED, 1.12 / TRUE_SPEED)

    print("-- the next plan is right; without what was learned it is not")
    plan = ["plan", "llama-3.1-8b", *TRAFFIC[2:], *SLO, "--owned", "H100 SXM5 80GB:16", "--no-slices"]
    without = json.loads(loop.run(*plan, "--format", "json"))
    loop.hold("GPUs by a plan that has learned nothing", without["deployments"][0]["gpu_count"], 1, 1)
    one_gpu = ["lease", "request", "--tenant", "chat", "--gpu", "1xH100", *TRAFFIC, *SLO]
    if loop.run(*one_gpu, codes=(1, 2)):
        raise SystemExit("the broker leases one GPU, and should know that it keeps no SLO")
    naive.run("tenant", "create", "chat")
    wrong = naive.json("lease", "request", "--tenant", "chat", *TRAFFIC, *SLO)["id"]
    naive.until("it serves", lambda: naive.json("lease", "show", wrong)["state"] == "active" or None)
    naive.hold("GPUs by a broker that has learned nothing", naive.gpus(wrong), 1, 1)
    right = loop.json("lease", "request", "--tenant", "chat", *TRAFFIC, *SLO)["id"]
    loop.until("it serves", lambda: loop.json("lease", "show", right)["state"] == "active" or None)
    loop.hold("GPUs by the broker's next plan", loop.gpus(right), saving["gpus_after"], saving["gpus_after"])
    measured = lambda of, one: of.until("it is measured", lambda: next(
        (usage for usage in [of.json("usage", "show", one)] if usage["requests"] > 200_000), None))
    loop.hold("TPOT p95 in seconds by the next plan", measured(loop, right)["tpot_p95"], 0, 0.032)
    naive.hold("TPOT p95 in seconds by the plan that has learned nothing", measured(naive, wrong)["tpot_p95"], 0.032, 10)
    tpot = lambda of: {slo["lease"]: slo["objectives"][1] for slo in of.json("slo", "show", codes=(0, 1))["items"]}
    loop.hold("tpot: share of good requests by the next plan", tpot(loop)[right]["good"], 0.95, 1)
    burns = tpot(naive)[wrong]
    naive.hold("tpot: the same by the plan that has learned nothing", burns["good"], 0, 0.95)
    naive.hold("its error budget burns, times faster than allowed", burns["burn"][3]["long"], 1, 20)
    if burns["alert"] == "ok":
        raise SystemExit("nobody is told that its error budget burns")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "target/debug/gpuwise")
