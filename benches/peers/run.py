#!/usr/bin/env python3
"""Our engine beside other simulators of serving: same requests, same step times, one core, one run.

    benches/peers/run.py                       # install, build, check the means, time, print tables
    benches/peers/run.py --only inference-lab --requests 10000,50000,200000
    benches/peers/run.py --check               # the means alone

What is missing is installed under target/peers (`--folder`): a crate by cargo, a wheel by pip, a Go
program from a checkout (`--blis`, else cloned). A peer that cannot be installed is named and left
out. README.md beside this file says what is compared and what is switched off.

Nothing is timed before the means of TTFT and end-to-end latency agree within 1 %; the exit code is 1
where they do not, or where a tool lost requests.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tools import Aisimulate, Blis, InferenceLab, InferenceLabEngine, Ours, Unavailable  # noqa: E402
from workload import arrivals  # noqa: E402

TOLERANCE = 0.01


def measured(command, folder, core):
    """Runs a command to its end: (wall seconds, processor seconds, peak MB, standard output)."""
    pinned = ["taskset", "-c", str(core), *command] if core is not None else command
    # Peak memory by GNU time where it is: a child of Python begins with Python's own.
    gnu = shutil.which("time")
    if gnu:
        pinned = [gnu, "--format", "%M", "--output", folder / "peak", *pinned]
    with open(folder / "out", "w+b") as out, open(folder / "err", "w+b") as err:
        started = time.perf_counter()
        child = subprocess.Popen(pinned, cwd=folder, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        text = out.read().decode(errors="replace")
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{' '.join(map(str, command))}\nfailed:\n{text}{err.read().decode(errors='replace')}")
    kilobytes = int((folder / "peak").read_text()) if gnu else usage.ru_maxrss
    return wall, usage.ru_utime + usage.ru_stime, kilobytes * 1.024 / 1000, text


def once(tool, cost, count, args):
    """One run of a tool on so many requests: what it took, and the means that it tells."""
    folder = args.folder / "work" / tool.key
    folder.mkdir(parents=True, exist_ok=True)
    command = tool.command(cost, count, folder)
    wall, processor, peak, text = measured(command, folder, args.core)
    result = tool.result(text, folder)
    if result["requests"] != count:
        sys.exit(f"{tool.name}: {result['requests']} of {count} requests were served")
    return {"wall": wall, "processor": processor, "peak": peak, **result}


def check(peers, ours, args):
    """Means of each peer beside ours at the same step times; whether all agree."""
    count = args.requests[0]
    print(f"\nMeans over the same {count:,} requests, before anything is timed:\n")
    print("| tool | step time | TTFT, ms | ours | difference | end to end, ms | ours | difference | |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|")
    agreed = True
    for tool in peers:
        for cost in tool.costs:
            theirs, own = once(tool, cost, count, args), once(ours, cost, count, args)
            cells, worst = [], 0.0
            for key in ("ttft", "e2e"):
                off = theirs[key] / own[key] - 1
                worst = max(worst, abs(off))
                cells += [f"{theirs[key] * 1e3:.3f}", f"{own[key] * 1e3:.3f}", f"{off:+.3%}"]
            verdict = "kept" if worst <= TOLERANCE else "DIFFERS"
            agreed &= worst <= TOLERANCE
            print(f"| {tool.name} | {cost} | {' | '.join(cells)} | {verdict} |", flush=True)
    return agreed


def timed(peers, ours, args):
    """Runs all tools in turn, so often, and prints what each took."""
    wanted = {cost for tool in peers for cost in tool.costs}
    cases = [(ours, cost) for cost in ours.costs if cost in wanted]
    cases += [(tool, cost) for tool in peers for cost in tool.costs]
    if not args.matched:
        cases += [(tool, "own") for tool in peers]
    runs = {}
    for turn in range(args.repeat):
        for tool, cost in cases:
            print(f"turn {turn + 1} of {args.repeat}: {tool.name}, {cost}", file=sys.stderr, flush=True)
            for count in counts(tool, args):
                runs.setdefault((tool.key, cost, count), []).append(once(tool, cost, count, args))
    print(f"\n{args.repeat} turns, all tools in each; medians, lowest to highest in brackets:\n")
    print("| tool | step time | requests | wall, s | processor, s | peak, MB | requests/s | requests/s, start left out | ours does as many times that |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    own_rates = {}
    for tool, cost in cases:
        first = counts(tool, args)[0]
        for count in counts(tool, args):
            rows = runs[tool.key, cost, count]
            wall, processor, peak = (spread([row[key] for row in rows]) for key in ("wall", "processor", "peak"))
            whole = spread([count / row["processor"] for row in rows])
            inner, factor = "–", "–"
            if count != first:
                starts = [row["processor"] for row in runs[tool.key, cost, first]]
                rates = [(count - first) / (row["processor"] - start) for start, row in zip(starts, rows)]
                inner = spread(rates)
                if tool is ours:
                    if count == args.requests[-1]:
                        own_rates[cost] = statistics.median(rates)
                elif cost in own_rates:
                    factor = f"{own_rates[cost] / statistics.median(rates):.1f}"
            print(f"| {tool.name} | {cost} | {count:,} | {wall} | {processor} | {peak} | {whole} | {inner} | {factor} |")
    print(
        "\nRequests/s are of processor time: once of the whole command, once of the requests beyond the"
        "\nfirst row of a tool by the time beyond that of the first row. Each peer is compared with ours at"
        "\nits step times and the largest number of requests that both had."
    )


def counts(tool, args):
    """Numbers of requests of a tool: a slow one gets fewer, ours more besides."""
    more = [10 * args.requests[-1]] if isinstance(tool, Ours) else []
    return [max(count // tool.slow, 1) for count in args.requests] + more


def spread(values, digits=3):
    """Median, lowest and highest, in so many digits."""

    def short(value):
        return f"{float(f'{value:.{digits}g}'):,.10g}"

    return f"{short(statistics.median(values))} ({short(min(values))}–{short(max(values))})"


def machine():
    model = platform.processor() or "unknown processor"
    try:
        for row in Path("/proc/cpuinfo").read_text().splitlines():
            if row.startswith("model name"):
                model = row.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} logical cores, load {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "peers", help="where peers are installed")
    parser.add_argument("--ours", type=Path, help="our example `peer`, built already")
    parser.add_argument("--blis", type=Path, help="a checkout of inference-sim/inference-sim; cloned where not given")
    parser.add_argument("--only", action="append", choices=["inference-lab", "inference-lab-engine", "aisimulate", "blis"], help="this peer; may be repeated")
    parser.add_argument("--requests", default="10000,50000", help="rising numbers of requests, the first is the start")
    parser.add_argument("--repeat", type=int, default=5, help="turns of all tools")
    parser.add_argument("--core", type=int, default=(os.cpu_count() or 1) - 1, help="the core that all run on")
    parser.add_argument("--matched", action="store_true", help="leave out the peers' own step times")
    parser.add_argument("--check", action="store_true", help="compare the means and stop")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.requests = sorted(int(count) for count in args.requests.split(","))
    if shutil.which("taskset") is None:
        args.core = None
    args.folder.mkdir(parents=True, exist_ok=True)

    ours = Ours(ROOT, args.ours and args.ours.resolve())
    ours.prepare()
    peers = []
    for tool in (InferenceLab(args.folder), InferenceLabEngine(args.folder), Aisimulate(args.folder), Blis(args.folder, args.blis)):
        if args.only and tool.key not in args.only:
            continue
        try:
            tool.prepare()
            peers.append(tool)
        except Unavailable as reason:
            print(f"SKIPPED: {tool.name}: {reason}", file=sys.stderr)
    # One of them draws its own arrivals and takes no others: it gives them to all.
    source = next((tool.arrivals for tool in peers if tool.key == "inference-lab"), None)
    for count in {count for tool in [ours, *peers] for count in counts(tool, args)}:
        arrivals(args.folder / "work", count, source if count <= args.requests[-1] else None)
    print(time.strftime("%Y-%m-%d") + ", " + machine())
    for tool in [ours, *peers]:
        print(f"- {tool.name}: {tool.version()}")
    agreed = check(peers, ours, args)
    if args.check or not agreed:
        sys.exit(0 if agreed else 1)
    timed(peers, ours, args)


if __name__ == "__main__":
    main()
