#!/usr/bin/env python3
"""Writes a fleet file and a job file of any size, for `gpuwise place`.

    benches/place/generate.py DIRECTORY [--nodes 10000] [--jobs 100000] [--held 0.97] [--queues 0]
                              [--runs 0.1] [--seed 1] [--pending]

Nodes are 8xH100, 8xA100 and 4xL40S in racks of 16. A share of the jobs runs already and holds a share of all
GPUs; the others ask for what people ask for: one GPU, several, fractions, gangs, gangs within a rack, of some
users and priorities and with durations of their own, so that hardly two are equal in every field and many are
equal in what decides whether they find a place. Without `--pending` what is free is enough for some of them;
with it nothing is free. The same arguments give the same files.
"""

import argparse
import pathlib
import random

KINDS = [("H100", 8, 128, 2048, 0.5), ("A100-SXM4-80GB", 8, 96, 1024, 0.3), ("L40S", 4, 64, 512, 0.2)]

# How often, GPUs of a worker, workers, wish; a share below 1 is a fraction of one GPU.
SHAPES = [
    (30, 1, 1, ""), (12, 2, 1, ""), (10, 4, 1, ""), (14, 8, 1, ""), (6, 0.25, 1, ""), (4, 0.5, 1, ""),
    (6, 8, 2, ""), (5, 8, 4, 'within = "rack"'), (4, 8, 8, 'within = "rack"'), (2, 8, 32, ""),
    (2, 4, 4, 'spread = { over = "node" }'), (3, 1, 1, 'slice'), (2, 2, 1, 'within = "numa"'),
]


def fleet(arguments):
    lines = ['name = "made up"', ""]
    if arguments.queues:
        lines += ['sharing = { half_life = "7d" }', ""]
    nodes, at, rack = [], 0, 0
    for kind, gpus, cores, memory, share in KINDS:
        count = round(arguments.nodes * share)
        if kind == KINDS[-1][0]:
            count = arguments.nodes - at
        for first in range(at, at + count, 16):
            last = min(first + 15, at + count - 1)
            lines += [
                "[[node]]", f'name = "n{{{first:06}..{last:06}}}"', f'gpus = "{gpus}x{kind}"', f"cpu = {cores}",
                f'memory = "{memory}GiB"', f'rack = "r{rack:05}"', "numa = 2", "",
            ]
            rack += 1
        nodes += [(f"n{number:06}", kind, gpus) for number in range(at, at + count)]
        at += count
    for number in range(arguments.queues):
        quota = sum(gpus for _, _, gpus in nodes) // arguments.queues
        lines += [
            "[[queue]]", f'name = "q{number}"', f"quota = {{ gpus = {quota}, borrow = {quota} }}",
            f"weight = {1 + number % 3}", "",
        ]
    return "\n".join(lines), nodes


def job(arguments, draw, number, lines):
    _, gpus, workers, wish = draw.choices(SHAPES, weights=[shape[0] for shape in SHAPES])[0]
    kind = draw.choices([None, "H100", "A100-SXM4-80GB", "L40S"], weights=[3, 4, 2, 1])[0]
    if kind == "L40S" and gpus == 8:
        gpus = 4
    lines += ["[[job]]", f'name = "job-{number}"', f'tenant = "user{draw.randrange(200)}"']
    if wish == "slice":
        lines.append('slice = "1g.10gb"')
    elif gpus < 1:
        lines.append(f"fraction = {gpus}")
        if kind:
            lines.append(f'types = "{kind}"')
    else:
        lines.append(f'gpus = "{gpus}x{kind}"' if kind else f"gpus = {gpus}")
    lines += [f"cpu = {max(1, int(gpus * 6))}", f'memory = "{max(4, int(gpus * 48))}GiB"']
    if workers > 1:
        lines.append(f"workers = {workers}")
    if wish and wish != "slice":
        lines.append(wish)
    lines.append(f"priority = {draw.choice([0, 0, 0, 10, 50])}")
    lines.append(f'duration = {{ expected = "{draw.randrange(10, 3000)}min", spread = 0.5 }}')
    lines.append(f'submitted = "{draw.randrange(1, 100000)}s"')
    if arguments.queues:
        lines.append(f'queue = "q{draw.randrange(arguments.queues)}"')
    lines.append("")


def jobs(arguments, nodes):
    draw = random.Random(arguments.seed)
    lines = ['name = "made up"', ""]
    running = 0
    free = [list(range(gpus)) for _, _, gpus in nodes]
    held, total = 0, sum(len(one) for one in free)
    wanted = total if arguments.pending else int(total * arguments.held)
    most = int(arguments.jobs * arguments.runs)
    # Whole nodes first, as many as it takes, then pieces, so that what is left lies scattered.
    order = list(range(len(nodes)))
    draw.shuffle(order)
    for at in order:
        if held >= wanted or running >= most:
            break
        name, _, gpus = nodes[at]
        pieces = [gpus] if draw.random() < 0.7 or most - running < 2 * len(nodes) // 3 else [gpus // 2, gpus - gpus // 2]
        if held + gpus > wanted:
            pieces = [1]
        if not arguments.pending and draw.random() < 0.05:
            pieces = [max(1, pieces[0] - 1)]
        for piece in pieces:
            first = gpus - len(free[at])
            free[at] = free[at][piece:]
            where = f"{first}-{first + piece - 1}" if piece > 1 else f"{first}"
            lines += [
                "[[job]]", f'name = "runs-{running}"', f'tenant = "user{draw.randrange(200)}"', f"gpus = {piece}",
                f"cpu = {piece * 6}", f'memory = "{piece * 48}GiB"', f'running = "{name}:{where}"',
                f'duration = {{ expected = "{draw.randrange(60, 6000)}min", spread = 0.5 }}',
                f'submitted = "{draw.randrange(100000, 200000)}s"',
            ]
            if arguments.queues:
                lines.append(f'queue = "q{draw.randrange(arguments.queues)}"')
            lines.append("")
            running += 1
            held += piece
    for number in range(arguments.jobs - running):
        job(arguments, draw, number, lines)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--held", type=float, default=0.97)
    parser.add_argument("--runs", type=float, default=0.15, help="share of the jobs that may run already")
    parser.add_argument("--queues", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pending", action="store_true", help="every GPU is held")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    text, nodes = fleet(arguments)
    (arguments.directory / "fleet.toml").write_text(text)
    (arguments.directory / "jobs.toml").write_text(jobs(arguments, nodes))


if __name__ == "__main__":
    main()
