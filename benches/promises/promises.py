#!/usr/bin/env python3
"""Leases that are promised keep their SLO, and few are refused that could have been promised.

    python3 benches/promises/promises.py target/debug/gpuwise [LEASES] [SEED]

Asks a broker with simulated GPUs for so many leases with --promise: models, rates, lengths and targets drawn
at random, within what people ask for and beyond. Those that are admitted run for an hour of simulated time,
under other random requests than they were tried with; then their SLOs are read. Of those refused it is asked
whether `gpuwise plan --simulate`, under a third seed, finds a deployment on the whole fleet that holds. Ends
with 1 where fewer than 98 % keep their SLO, or more than 5 % of the refusals were needless. Needs Python alone.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

SPEED = 1200
MODELS = {"llama-3.1-8b": (2, 60), "qwen3-8b": (2, 60), "llama-3.1-70b": (0.5, 8), "mistral-7b": (2, 60)}
FLEET = """
name = "promises"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[gpu_kind]]
name = "L40S"
price = "0.90 USD"
[[node]]
name = "h{1..60}"
gpus = "8xH100"
cpu = 128
memory = "2TiB"
[[node]]
name = "l{1..30}"
gpus = "8xL40S"
cpu = 128
memory = "1TiB"
"""


def drawn(chance):
    model = chance.choice(sorted(MODELS))
    low, high = MODELS[model]
    rate = low * (high / low) ** chance.random()
    return {
        "tenant": "chat", "model": model, "rate": f"{rate:.3g}", "for": "1h", "promise": True,
        "isl": str(chance.choice([300, 1000, 3000])), "osl": str(chance.choice([100, 300])),
        "ttft": "p95:" + chance.choice(["100ms", "300ms", "1s", "3s"]),
        "tpot": "p95:" + chance.choice(["6ms", "12ms", "25ms", "50ms"]),
    }


class Broker:
    def __init__(self, binary, folder):
        self.env = {"PATH": os.environ["PATH"], "HOME": folder, "XDG_CONFIG_HOME": folder + "/config"}
        self.binary, self.folder = os.path.abspath(binary), folder
        with open(folder + "/fleet.toml", "w") as file:
            file.write(FLEET)
        self.process = subprocess.Popen(
            [self.binary, "--offline", "serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml", "--store",
             f"sqlite://{folder}/log.db", "--speed", str(SPEED), "--true-speed", "1", "--right-size", "off",
             "--telemetry-every", "10min"],
            cwd=folder, env=self.env, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "token is in " in line:
                with open(line.split("token is in ")[1].split(";")[0]) as file:
                    self.token = file.read().strip()
            if "Broker at " in line:
                self.url = line.split("Broker at ")[1].split(",")[0]
                return
        sys.exit("the broker did not start")

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {
            "authorization": "Bearer " + self.token, "content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def needless(binary, folder, env, ask):
    """Whether a refused lease could have been kept: what a plan finds for it holds in the simulator under
    another seed, or what is fastest for twice its load, whatever it costs."""
    base = [os.path.abspath(binary), "--offline", "--seed", "77"]
    words = ["plan", ask["model"], "--owned", "H100 SXM5 80GB:480,L40S:240"]
    slo = ["--ttft", ask["ttft"], "--tpot", ask["tpot"]]
    lengths = ["--isl", ask["isl"], "--osl", ask["osl"]]

    def run(*more):
        done = subprocess.run([*base, *more], cwd=folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(more)}: {done.stderr}")
        return done.returncode == 0

    if run(*words, *lengths, "--rate", ask["rate"], *slo, "--simulate"):
        return True
    saved = f"{folder}/{ask['model']}-{ask['rate']}-{ask['isl']}.json"
    fast = [*words, *lengths, "--rate", str(2 * float(ask["rate"])), "--objective", "latency", "--save", saved]
    return run(*fast) and run("simulate", saved, *lengths, "--rate", ask["rate"], *slo, "--requests", "2000")


def main(binary, leases, seed):
    chance = random.Random(seed)
    asks = [drawn(chance) for _ in range(leases)]
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(binary, folder)
        try:
            broker.ask("/v1/tenants", {"name": "chat"})
            began = time.monotonic()
            with ThreadPoolExecutor(2) as pool:
                answers = list(pool.map(lambda ask: broker.ask("/v1/leases", ask), asks))
            admitted = [body["id"] for status, body in answers if status == 201]
            refused = [(ask, body) for ask, (status, body) in zip(asks, answers) if status != 201]
            print(f"{leases} asked, {len(admitted)} promised, {len(refused)} refused in {time.monotonic() - began:.0f} s", flush=True)
            while broker.ask("/v1/leases?state=open&limit=1")[1]["items"]:
                time.sleep(1)
            time.sleep(2)
            report(broker, admitted, refused, folder)
        finally:
            broker.process.terminate()
            broker.process.wait()


def report(broker, admitted, refused, folder):
    kept, broken, silent = 0, [], 0
    slos = {slo["lease"]: slo for slo in broker.ask("/v1/slos")[1]["items"]}
    for lease in admitted:
        objectives = slos[lease]["objectives"]
        if not any(one["events"] for one in objectives):
            silent += 1
        elif all(one["good"] is None or one["good"] >= one["objective"] for one in objectives if one["events"]):
            kept += 1
        else:
            broken.append(lease)
    measured = kept + len(broken)
    print(f"promised: {kept} of {measured} kept their SLO ({100 * kept / measured:.2f} %), {silent} were not measured")
    for lease in broken:
        found = ", ".join(f"{one['indicator']} {one['good']:.4f} of {one['objective']}"
                          for one in slos[lease]["objectives"] if one["events"])
        print(f"  {lease}: {found}")
    whys = {}
    for ask, body in refused:
        # What was short, without the figures of one lease.
        why = body["type"].rsplit("/", 1)[-1]
        whys.setdefault(why, []).append(ask)
    for why, asks in sorted(whys.items()):
        print(f"refused, {len(asks)}: {why}")
    audited = [ask for ask, body in refused if "no place" not in body["detail"]]
    with ThreadPoolExecutor(2) as pool:
        wrong = sum(pool.map(lambda ask: needless(broker.binary, folder, broker.env, ask), audited))
    share = wrong / max(1, len(admitted) + len(refused))
    print(f"needless: {wrong} of {len(refused)} refusals, {100 * share:.2f} % of what was asked")
    if kept < 0.98 * measured or share > 0.05:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "target/debug/gpuwise",
         int(sys.argv[2]) if len(sys.argv) > 2 else 1000, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
