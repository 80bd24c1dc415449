#!/usr/bin/env python3
"""Plants one or two causes of slowness in a real Kineto trace, and writes what is true of it.

    inject.py --traces DIR --out DIR --seed 3 tb_resnet50_nw4_a host_bound [idle]

Writes OUT/<case>/<n>.json, one file a rank, and OUT/<case>/truth.json. See README.md.
Shares no code with gpuwise.
"""

import argparse
import json
import os
import random as chance
import sys

from causes import CAUSES, window
from kineto import Trace
from retime import Change, Plan, is_collective, run, run_ranks

# The strength of a cause: this share of the trace's own span is added, and in any case more than all
# idle time and all exposed communication of the trace together, so that it is what limits it most.
LEAST, MOST, ABOVE = 0.3, 1.2, 1.25
TOLERANCE = 0.1

# Causes that act upon the same kernels, copies or bytes: never planted together.
APART = [{"throttled_clock", "tensor_cores", "low_occupancy", "small_kernels"}, {"pageable_copies", "pcie"},
         {"fragmentation", "memory_capacity"}]

GROUPS = {
    name: [f"{name}.json.gz"] for name in (
        "tl_h100_Falconsai_nsfw_image_detection", "tl_h100_gaunernst_bert-small-uncased",
        "tl_mi300_Falconsai_nsfw_image_detection", "tl_mi300_gaunernst_bert-small-uncased", "deepseek_train",
        "tl_mi300_Qwen_Qwen1.5-0.5B-Chat", "tl_vllm_decode_full", "tl_torch_compile_triton")}
GROUPS["dlrm_8rank"] = [f"dlrm_8rank/rank{r}.json.gz" for r in range(8)]
GROUPS["hta_sampled_2rank"] = [f"hta_sampled_2rank/rank{r}.json.gz" for r in range(2)]
GROUPS.update({
    name: [f"{name}.json.gz"] for name in (
        "tb_resnet50_nw4_a", "hta_ns_resolution", "tl_mi300_facebook_timesformer-base-finetuned-k400",
        "hta_negative_queue", "param_linear", "tl_mi300_resnet_act_checkpoint", "hta_trace_diff_control",
        "tb_resnet50_nw0_a", "param_resnet", "tl_h100_google_owlv2-large-patch14-ensemble", "tb_resnet50_nw0_b")})
MANY_RANKS = ("straggler", "communication", "host_bound")


def union(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(spans):
    return sum(end - start for start, end in spans)


def slack(trace):
    """Idle time and exposed communication of a trace as it is, in ns."""
    low, high = window(trace)
    busy = union([(e.start, e.end) for e in trace.gpu])
    others = union([(e.start, e.end) for e in trace.gpu if not is_collective(e.name)])
    return (high - low) - length(busy), length(busy) - length(others)


class Straggler:
    """One rank computes longer before each collective; the others wait for it there."""

    def __init__(self, group, random):
        self.rank = random.randrange(len(group.traces))
        trace = group.traces[self.rank]
        self.pairs = []
        for collective in [e for e in trace.gpu if is_collective(e.name)]:
            before = [e for e in trace.gpu if not is_collective(e.name) and e.end <= collective.start
                      and (e.raw.get("cat") or "").lower() == "kernel"]
            if before:
                self.pairs.append((before[-1], collective))
        count = max(3, int(len(self.pairs) * random.uniform(0.6, 1.0)))
        self.pairs = sorted(random.sample(self.pairs, min(count, len(self.pairs))), key=lambda p: p[1].start)
        self.low, self.high, self.accept = 1e5, 1e12, ["straggler"]
        self.detail = f"rank {self.rank} late at {len(self.pairs)} collectives"

    def changes(self, x, count):
        changes = [Change() for _ in range(count)]
        mine = changes[self.rank]
        for kernel, collective in self.pairs:
            mine.durations[id(kernel)] = kernel.duration + int(x / len(self.pairs))
            mine.dependencies[id(collective)] = (kernel,)
        return changes

    def finish(self, x):
        pass


class SlowNetwork:
    """Every collective takes longer, by as much on each rank: its transfer does, not the waiting."""

    def __init__(self, group, random):
        orders = [[e for e in t.gpu if is_collective(e.name)] for t in group.traces]
        count = min(len(order) for order in orders)
        self.orders = [order[:count] for order in orders]
        weights = [min(order[k].duration for order in self.orders) * random.uniform(0.5, 1.5) + 1 for k in range(count)]
        self.weights = [w / sum(weights) for w in weights]
        self.low, self.high, self.accept = 1e5, 1e12, ["communication"]
        self.detail = f"{count} collectives made slow on all ranks"

    def changes(self, x, count):
        changes = []
        for order in self.orders:
            change = Change()
            change.durations = {id(e): e.duration + int(x * w) for e, w in zip(order, self.weights)}
            changes.append(change)
        return changes

    def finish(self, x):
        pass


class Everywhere:
    """A cause of a single trace, planted in every rank of a group alike."""

    def __init__(self, planted):
        self.planted = planted
        first = planted[0]
        self.low, self.high, self.accept, self.detail = first.low, first.high, first.accept, first.detail

    def changes(self, x, count):
        return [p.change(x) for p in self.planted]

    def finish(self, x):
        for planted in self.planted:
            planted.finish(x)


class Group:
    """The ranks of one run."""

    def __init__(self, name, folder):
        self.name = name
        self.traces = [Trace(os.path.join(folder, file)) for file in GROUPS[name]]
        self.plans = [Plan(t) for t in self.traces]
        self.known = [len(t.spans) for t in self.traces]
        idle, exposed = zip(*(slack(t) for t in self.traces))
        self.slack = max(i + e for i, e in zip(idle, exposed))
        self.base, _ = self.time([Change() for _ in self.traces])

    def prepare(self, name, random):
        if name == "straggler":
            return Straggler(self, random) if len(self.traces) > 1 else None
        if len(self.traces) > 1 and name not in MANY_RANKS:
            return None
        if name == "communication" and len(self.traces) > 1:
            return SlowNetwork(self, random)
        seed = random.random()
        planted = [CAUSES[name](t, p, chance.Random(seed)) for t, p in zip(self.traces, self.plans)]
        return None if any(p is None for p in planted) else Everywhere(planted)

    def time(self, changes):
        """The longest span of the ranks after the changes, and the maps of host time."""
        if len(self.traces) > 1:
            maps = run_ranks(self.traces, self.plans, changes)
        else:
            maps = [run(self.traces[0], self.plans[0], changes[0])]
        spans = []
        for trace, change in zip(self.traces, changes):
            work = trace.gpu + [e for e in change.added if e.kind == "gpu"]
            work = [e for e in work if e.new_end is not None]
            spans.append(max(e.new_end for e in work) - min(e.new_start for e in work))
        return max(spans), maps

    def strength(self, cause, target):
        """The strength that adds about `target` ns; None where none does."""
        if cause.high == 0:
            return 0.0
        count = len(self.traces)
        added = lambda x: self.time(cause.changes(x, count))[0] - self.base
        low, high = cause.low, cause.low
        if cause.high > 1e9:
            low = high = max(cause.low, target / 4)
        while added(high) < target:
            if high >= min(cause.high, 60 * target if cause.high > 1e9 else cause.high):
                return None
            low, high = high, min(high * 3, cause.high)
        for _ in range(12):
            middle = (low * high) ** 0.5
            got = added(middle)
            if abs(got - target) <= TOLERANCE * target:
                return middle
            low, high = (middle, high) if got < target else (low, middle)
        return high if abs(added(high) - target) < 0.5 * target else None


def merged(all_changes):
    together = all_changes[0]
    for changes in all_changes[1:]:
        together = [a.merged(b) for a, b in zip(together, changes)]
    return together


def allowed(names):
    return len(set(names)) == len(names) and all(len(set(names) & apart) < 2 for apart in APART)


def plant(group, names, seed):
    """Plants the causes; gives the truth and the final changes, or the reason why it cannot be."""
    random = chance.Random(f"{group.name} {' '.join(names)} {seed}")
    causes, strengths, count = [], [], len(group.traces)
    for name in names:
        cause = group.prepare(name, random)
        if cause is None:
            return f"{name}: this trace cannot carry it"
        target = max(random.uniform(LEAST, MOST) * group.base, ABOVE * group.slack * random.uniform(1.0, 1.3))
        x = group.strength(cause, target)
        if x is None:
            return f"{name}: cannot be made strong enough here"
        causes.append(cause)
        strengths.append(x)
    changes = [c.changes(x, count) for c, x in zip(causes, strengths)]
    truth = {"group": group.name, "files": GROUPS[group.name], "seed": seed, "base_span_ns": group.base, "causes": []}
    total, _ = group.time(merged(changes))
    for k, (name, cause, x) in enumerate(zip(names, causes, strengths)):
        rest = changes[:k] + changes[k + 1:]
        without = group.time(merged(rest))[0] if rest else group.base
        truth["causes"].append({"class": name, "accept": cause.accept, "strength": x, "detail": cause.detail,
                                "added_ns": total - without, "share": (total - without) / total})
        timed = cause.high > 0
        if timed and total - without < 0.15 * total:
            return f"{name}: hidden behind the other cause"
    truth["span_ns"] = total
    for cause, x in zip(causes, strengths):
        cause.finish(x)
    return truth, merged(changes)


def write(group, truth, changes, folder):
    os.makedirs(folder, exist_ok=True)
    _, maps = group.time(changes)
    paths = []
    for rank, (trace, change, host) in enumerate(zip(group.traces, changes, maps)):
        trace.spans = [e for e in trace.spans if not e.raw.get("_new")] + change.added
        trace.gpu = [e for e in trace.spans if e.kind == "gpu"]
        path = os.path.join(folder, f"{rank}.json")
        trace.write(path, host)
        paths.append(path)
    with open(os.path.join(folder, "truth.json"), "w") as file:
        json.dump(truth, file, indent=1)
    return paths


def case_name(group, names, seed):
    return f"{group}.{'+'.join(names)}.{seed}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("group", choices=sorted(GROUPS))
    parser.add_argument("causes", nargs="+")
    given = parser.parse_args()
    group = Group(given.group, given.traces)
    planted = plant(group, given.causes, given.seed)
    if isinstance(planted, str):
        sys.exit(planted)
    truth, changes = planted
    for path in write(group, truth, changes, os.path.join(given.out, case_name(given.group, given.causes, given.seed))):
        print(path)
    print(json.dumps(truth["causes"], indent=1))


if __name__ == "__main__":
    main()
