"""What the gateway adds to a request: one engine, asked directly and through the broker, in turn, by `gpuwise bench`.

    python3 benches/gateway/run.py GPUWISE [RATE [ROUNDS]]

The engine answers at a fixed pace (20 ms to the first token, 2 ms between tokens), so that what differs is the
gateway. Times are those of requests: percentiles over all rounds.
"""

import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from broker import Broker

FLEET = """
name = "gateway"
[[node]]
name = "n1"
gpus = "2xH100"
cpu = 64
memory = "1TiB"
"""

MODEL = "made-up"


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def main():
    gpuwise = sys.argv[1]
    rate = sys.argv[2] if len(sys.argv) > 2 else "50"
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as folder, Broker(gpuwise, folder, FLEET, "--executor", "local") as broker:
        broker.run("tenant", "create", "vision")
        broker.run("lease", "request", "--tenant", "vision", "--gpu", "H100", "--serve", MODEL, "--", broker.gpuwise, "engine",
                   "--listen", "127.0.0.1:{port}", "--model", MODEL, "--ttft", "20ms", "--tpot", "2ms")
        while broker.json("lease", "show", "L-1")["state"] != "active":
            pass
        direct = re.search(r"at (http://\S+),", broker.run("lease", "logs", "L-1"))[1]
        asked = {"directly": direct, "by the gateway": f"{broker.url}/v1"}
        times = {name: {"ttft": [], "e2e": []} for name in asked}
        records = pathlib.Path(folder) / "records.csv"
        for seed in range(rounds):
            for name, address in asked.items():
                broker.run("bench", address, "--model", MODEL, "--key-env", "GPUWISE_TOKEN", "--rate", rate, "--isl", "200",
                           "--osl", "20", "--requests", "1000", "--seed", str(seed), "--records", str(records))
                lines = [line.split(",") for line in records.read_text().splitlines()]
                at = {key: lines[0].index(key) for key in ("sent_s", "first_token_s", "end_s")}
                for line in lines[1:]:
                    sent, first, end = (line[at[key]] for key in ("sent_s", "first_token_s", "end_s"))
                    times[name]["ttft"].append(1e3 * (float(first) - float(sent)))
                    times[name]["e2e"].append(1e3 * (float(end) - float(sent)))
    print(f"{rate} requests/s, {rounds} rounds of 1,000 each")
    for what in ("ttft", "e2e"):
        for share in (0.5, 0.9, 0.99):
            a, b = (quantile(times[name][what], share) for name in asked)
            print(f"{what} p{share * 100:g}: {a:.2f} ms directly, {b:.2f} ms by the gateway, {b - a:+.2f} ms")


main()
