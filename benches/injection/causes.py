"""The causes that are planted. Each gives, for one trace and one seed, a change of any strength.

`prepare(trace, plan, random)` returns None where the trace cannot carry the cause, else a `Planted`.
Shares no code with gpuwise.
"""

from bisect import bisect_right
import itertools

from kineto import Event
from retime import Change, is_collective

TENSOR = ("tensorop", "16816", "s1688", "h1688", "i16832", "hmma", "wgmma", "xmma_gemm_bf16", "xmma_gemm_f16")
PLAIN = ("elementwise", "vectorized", "reduce", "norm", "softmax", "copy", "cat")


class Planted:
    """`change(x)` for a strength x within `span`; `finish(x)` renames what carries it."""

    def __init__(self, accept, low, high, change, finish=None, detail=""):
        self.accept, self.low, self.high = accept, low, high
        self.change, self.finish, self.detail = change, finish or (lambda x: None), detail


class Scribe:
    """Adds events to a trace, in its own style."""

    blocks = itertools.count()

    def __init__(self, trace):
        self.trace = trace
        # Two causes in one trace number their calls apart.
        self.number = 900_000_000 + 1_000_000 * next(self.blocks)
        self.thread = trace.main_thread() or (0, 0)
        self.made = []

    def add(self, category, name, start, end, args, pid, tid, kind, length=None):
        old = {"cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime",
               "kernel": "Kernel", "gpu_memcpy": "Memcpy"}
        raw = {"ph": "X", "cat": old[category] if self.trace.old_style else category, "name": name,
               "pid": pid, "tid": tid, "args": args, "_new": True}
        if length is not None:
            raw["_length"] = length
        event = Event(raw, start, end, kind)
        event.correlation = args.get("correlation")
        self.made.append(event)
        return event

    def host(self, name, start, end, thread=None, category="cpu_op", length=None):
        pid, tid = thread or self.thread
        self.number += 1
        return self.add(category, name, start, end, {"External id": self.number}, pid, tid, "host", length)

    def call(self, name, start, end, thread=None, length=None, external=None):
        pid, tid = thread or self.thread
        self.number += 1
        args = {"cbid": 0, "correlation": self.number}
        args["external id" if self.trace.old_style else "External id"] = external or self.number
        return self.add("cuda_runtime", self.runtime(name), start, end, args, pid, tid, "call", length)

    def runtime(self, name):
        if not self.trace.rocm:
            return name
        return {"cudaMemcpyAsync": "hipMemcpyWithStream"}.get(name, name.replace("cuda", "hip"))

    def work(self, category, name, call, duration, args=None, like=None, stream=None):
        like = like or self.main_work()
        full = {key: value for key, value in (like.raw.get("args") or {}).items()
                if key in ("device", "context", "stream", "queued")}
        full["correlation"] = call.correlation
        for key in ("External id", "external id"):
            if key in call.args:
                full[key] = call.args[key]
        full.update(args or {})
        if stream is not None:
            full["stream"] = stream
        tid = like.raw.get("tid") if stream is None else stream
        begun = call.start + 4_000
        event = self.add(category, name, begun, begun + duration, full, like.raw.get("pid"), tid, "gpu")
        event.call = call
        event.stream = like.stream if stream is None else (like.stream[0], stream)
        return event

    def main_work(self):
        """Some work of the stream that has most."""
        if not hasattr(self.trace, "busiest"):
            totals = {}
            for event in self.trace.gpu:
                if not is_collective(event.name):
                    totals.setdefault(event.stream, []).append(event)
            self.trace.busiest = max(totals.values(), key=len)[0]
        return self.trace.busiest


def steps_of(trace):
    return sorted((e for e in trace.host if e.name.startswith("ProfilerStep#")), key=lambda e: e.start)


def window(trace):
    return trace.gpu[0].start, max(e.end for e in trace.gpu)


def kernels_of(trace):
    return [e for e in trace.gpu if (e.raw.get("cat") or "").lower() == "kernel"]


def outer_operators(trace, main_only=True):
    """Outermost operators by thread: those that no operator encloses."""
    low, high = window(trace)
    found, until = [], {}
    main = trace.main_thread()
    for event in trace.host:
        category = (event.raw.get("cat") or "").lower()
        if category not in ("cpu_op", "operator") or event.name.startswith(("ProfilerStep", "enumerate", "Optimizer")):
            continue
        thread = (event.raw.get("pid"), event.raw.get("tid"))
        if main_only and not same_thread(thread, main):
            continue
        if event.start >= until.get(thread, 0):
            until[thread] = event.end
            if low < event.start < high:
                found.append(event)
    return found


def same_thread(one, other):
    return str(one[0]) == str(other[0]) and str(one[1]) == str(other[1])


def quiet(trace, instants, anywhere=False):
    """Instants that fall into no call."""
    starts = [c.start for c in trace.calls]
    kept = []
    for at in instants:
        index = bisect_right(starts, at)
        near = trace.calls[max(0, index - 40):index]
        if all(not (c.start < at < c.end) for c in near):
            kept.append(at)
    return kept


def shares(random, count, total):
    weights = [0.5 + random.random() for _ in range(count)]
    return [int(total * w / sum(weights)) for w in weights]


def data_loading(trace, plan, random):
    low, high = window(trace)
    ranges = [e for e in trace.host if e.name.startswith("enumerate(DataLoader)") and low < e.end < high]
    steps = [s for s in steps_of(trace) if low < s.start < high]
    if len(ranges) >= 2:
        places, scribe = [e.end - 1 for e in ranges], None
    elif len(steps) >= 2:
        scribe = Scribe(trace)
        places = [s.start + 1000 for s in steps]
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        for at in places:
            scribe.host(name, at - 1, at, category="user_annotation")
    else:
        return None
    weights = shares(random, len(places), 1_000_000)

    def change(x):
        made = Change()
        made.pauses = [(at, int(x * w / 1_000_000)) for at, w in zip(places, weights)]
        made.added = scribe.made if scribe else []
        return made
    return Planted(["data_loading"], 1e5, 1e12, change, detail=f"{len(places)} waits")


def throttled_clock(trace, plan, random):
    kernels = [e for e in kernels_of(trace) if not is_collective(e.name)]
    if len(kernels) < 200:
        return None
    low, high = window(trace)
    at = low + int((high - low) * random.uniform(0.3, 0.6))
    key = lambda e: (e.name, str(e.args.get("grid")), str(e.args.get("block")))
    seen = {key(e) for e in kernels if e.end <= at}
    late = [e for e in kernels if e.start >= at]
    total = sum(e.duration for e in late)
    if not late or sum(e.duration for e in late if key(e) in seen) < 0.6 * total:
        return None

    def change(x):
        made = Change()
        made.durations = {id(e): int(e.duration * (1 + x * random_of(e, 0.96, 1.04))) for e in late}
        return made
    return Planted(["throttled_clock"], 0.05, 2.5, change, detail=f"from {at}")


def random_of(event, low, high):
    """A jitter that depends on the event alone."""
    return low + (high - low) * ((event.start * 2654435761) % 1000) / 1000


def copies_of(trace, kind):
    return [e for e in trace.gpu if e.name.startswith(f"Memcpy HtoD ({kind}") and e.call is not None
            and int(e.args.get("bytes") or 0) >= 1 << 20]


def copy_name(trace, kind):
    return "Memcpy HtoD (Host -> Device)" if trace.rocm else f"Memcpy HtoD ({kind} -> Device)"


def slow_copies(trace, random, kind, speeds, blocking, accept):
    """New copies at some operators, or pinned ones of the trace made slow."""
    pinned = copies_of(trace, "Pinned")
    low, high = window(trace)
    if sum(e.duration for e in pinned) > 0.02 * (high - low) and random.random() < 0.6:
        return stretched_copies(trace, pinned, kind, blocking, accept)
    starts = [s.start + 1500 for s in steps_of(trace) if low < s.start < high]
    if len(starts) < 2:
        outer = [e.start for e in outer_operators(trace)]
        count = min(random.randint(2, 8), len(outer))
        starts = sorted(random.sample(outer, count)) if outer else []
    starts = quiet(trace, starts)
    if not starts:
        return None
    scribe = Scribe(trace)
    speed = random.uniform(*speeds)
    made, weights = [], shares(random, len(starts), 1_000_000)
    for at in starts:
        operator = scribe.host("aten::copy_", at, at + 3, length=None if blocking else 12_000)
        call = scribe.call("cudaMemcpyAsync", at, at + 1, length=9_000, external=operator.args["External id"])
        made.append(scribe.work("gpu_memcpy", copy_name(trace, kind), call, 1000))

    def change(x):
        it = Change()
        it.added = scribe.made
        for event, weight in zip(made, weights):
            it.durations[id(event)] = max(int(x * weight / 1_000_000), 1000)
            if blocking:
                it.blocking.add(id(event.call))
        if not blocking:
            it.pauses = [(at, 13_000) for at in starts]
        return it

    def finish(x):
        for event, weight in zip(made, weights):
            nanoseconds = max(int(x * weight / 1_000_000), 1000)
            event.args["bytes"] = int(nanoseconds * speed)
            event.args["memory bandwidth (GB/s)"] = speed
    return Planted(accept, 1e5, 1e12, change, finish, f"{len(starts)} new copies at {speed:.2f} GB/s")


def stretched_copies(trace, copies, kind, blocking, accept):
    def change(x):
        it = Change()
        scale = 1 + x / max(sum(e.duration for e in copies), 1)
        it.durations = {id(e): int(e.duration * scale) for e in copies}
        if blocking:
            it.blocking = {id(e.call) for e in copies}
        return it

    def finish(x):
        scale = 1 + x / max(sum(e.duration for e in copies), 1)
        for event in copies:
            event.raw["name"] = copy_name(trace, kind)
            event.args["memory bandwidth (GB/s)"] = float(event.args["bytes"]) / max(event.duration * scale, 1)
    slowest = min(float(e.args["bytes"]) / max(e.duration, 1) for e in copies)
    bytes_, time = sum(int(e.args["bytes"]) for e in copies), sum(e.duration for e in copies)
    return Planted(accept, 1e5, max(bytes_ / 0.8 - time, 2e5), change, finish,
                   f"{len(copies)} pinned copies (slowest {slowest:.1f} GB/s) made slow")


def pageable_copies(trace, plan, random):
    if trace.rocm:
        return None
    return slow_copies(trace, random, "Pageable", (2.0, 6.0), True, ["pageable_copies"])


def pcie(trace, plan, random):
    if trace.rocm:
        return None
    return slow_copies(trace, random, "Pinned", (0.9, 2.6), False, ["pcie"])


def small_kernels(trace, plan, random):
    lone = [e for e in kernels_of(trace) if e.call is not None and len(plan.launched[id(e.call)]) == 1
            and e.duration >= 8_000 and not is_collective(e.name)]
    plain = [e for e in lone if any(word in e.name.lower() for word in PLAIN)]
    if len(plain) >= 10 and random.random() < 0.5:
        lone = plain
    if not lone:
        return None
    random.shuffle(lone)
    piece = random.uniform(1_300, 4_500)
    every = random.uniform(6_000, 10_000)
    limit, chosen, count = 15_000, [], 0
    for event in lone:
        pieces = min(int(event.duration / piece), 2000)
        if count + pieces > limit or pieces < 3:
            continue
        count += pieces
        chosen.append((event, pieces))

    cache = {}

    def change(x):
        it = Change()
        number = max(1, int(len(chosen) * x))
        for event, pieces in chosen[:number]:
            if id(event) not in cache:
                cache[id(event)] = split(trace, event, pieces, every, len(cache))
            made, pauses = cache[id(event)]
            it.added += made
            it.pauses += pauses
            each = event.duration // pieces
            it.durations[id(event)] = each
            it.durations.update({id(e): each for e in made if e.kind == "gpu"})
        return it
    if not chosen:
        return None
    return Planted(["small_kernels"], 1.0 / len(chosen), 1.0, change, detail=f"pieces of {piece:.0f} ns each {every:.0f} ns")


def split(trace, event, pieces, every, number):
    scribe = Scribe(trace)
    scribe.number = 900_000_000 + 5000 * (number + 1)
    thread = (event.call.raw.get("pid"), event.call.raw.get("tid"))
    at = event.call.end
    pauses = [(at + pieces + 1, int(every))]
    keep = {k: v for k, v in event.args.items() if k not in ("correlation", "External id", "external id")}
    for k in range(1, pieces):
        pauses.append((at + k, int(every)))
        operator = scribe.host("aten::add_", at + k, at + k, thread, length=int(every * 0.85))
        call = scribe.call("cudaLaunchKernel", at + k, at + k, thread, int(every * 0.5), operator.args["External id"])
        work = scribe.work("kernel", event.name, call, 1000, keep, like=event)
        work.args["correlation"] = call.correlation
    return scribe.made, pauses


def synchronisation(trace, plan, random):
    instants = quiet(trace, [e.end + 1 for e in outer_operators(trace, main_only=False)])
    if len(instants) < 10:
        return None
    item = random.random() < 0.6
    random.shuffle(instants)
    scribe, groups = Scribe(trace), []
    think = int(random.uniform(8_000, 40_000))
    for at in instants[:1500]:
        begun = len(scribe.made)
        work = None
        if item:
            operator = scribe.host("aten::item", at, at + 4)
            scribe.host("aten::_local_scalar_dense", at, at + 3)
            call = scribe.call("cudaMemcpyAsync", at, at + 1, length=6_000, external=operator.args["External id"])
            name = "Memcpy DtoH (Device -> Host)" if trace.rocm else "Memcpy DtoH (Device -> Pageable)"
            work = scribe.work("gpu_memcpy", name, call, 1_200, {"bytes": 4, "memory bandwidth (GB/s)": 0.003})
            scribe.call("cudaStreamSynchronize", at + 1, at + 2, length=4_000, external=operator.args["External id"])
        else:
            scribe.call("cudaDeviceSynchronize", at + 1, at + 2, length=4_000)
        groups.append((at, scribe.made[begun:], work))

    def change(x):
        it = Change()
        for at, made, work in groups[:max(1, int(len(groups) * x))]:
            it.added += made
            it.pauses += [(at + 1, 7_000), (at + 5, think)]
            if work is not None:
                it.durations[id(work)] = 1_200
        return it
    return Planted(["synchronisation"], 1.0 / len(groups), 1.0, change, detail="item" if item else "device")


def communication(trace, plan, random):
    low, high = window(trace)
    these = [e for e in kernels_of(trace) if is_collective(e.name)]
    if these and sum(e.duration for e in these) > 0.01 * (high - low):
        def change(x):
            it = Change()
            scale = 1 + x / sum(e.duration for e in these)
            it.durations = {id(e): int(e.duration * scale) for e in these}
            return it
        return Planted(["communication"], 1e5, 1e12, change, detail=f"{len(these)} collectives made slow")
    optimizers = [e for e in trace.host if e.name.startswith("Optimizer.step") and low < e.start < high]
    if len(optimizers) < 2:
        return None
    return new_collectives(trace, random, optimizers)


def new_collectives(trace, random, optimizers):
    scribe, made, waits = Scribe(trace), [], {}
    starts = [e.call.start if e.call else e.start for e in trace.gpu]
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    stream = 20_001
    for optimizer in optimizers:
        call = scribe.call("cudaLaunchKernel", optimizer.start - 2, optimizer.start - 1, length=6_000)
        args = {"Collective name": "allreduce", "In msg nelems": 25_557_032, "Out msg nelems": 25_557_032,
                "Group size": 8, "dtype": "Float", "grid": [24, 1, 1], "block": [544, 1, 1]}
        event = scribe.work("kernel", name, call, 1000, args, stream=stream)
        launched = [g for g, at in zip(trace.gpu, starts) if at < optimizer.start]
        later = [g for g, at in zip(trace.gpu, starts) if at >= optimizer.start]
        made.append(event)
        if launched:
            waits[id(event)] = (max(launched, key=lambda g: g.end),)
        if later:
            waits[id(later[0])] = (event,)
    weights = shares(random, len(made), 1_000_000)

    def change(x):
        it = Change()
        it.added, it.dependencies = scribe.made, waits
        it.pauses = [(o.start - 2, 9_000) for o in optimizers]
        it.durations = {id(e): max(int(x * w / 1_000_000), 2000) for e, w in zip(made, weights)}
        return it
    return Planted(["communication"], 1e5, 1e12, change, detail=f"{len(made)} new collectives before the optimizer")


def tensor_cores(trace, plan, random):
    major = int(trace.device.get("computeMajor") or 0)
    if trace.rocm or major < 7:
        return None
    these = [e for e in kernels_of(trace) if any(word in e.name.lower() for word in TENSOR)]
    if not these:
        return None
    family = {7: "volta", 8: "ampere"}.get(major, "sm80_xmma")
    plain = random.random() < 0.5

    def name(event):
        if family == "sm80_xmma":
            return ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_"
                    "aligna4_alignc4_execute_kernel__5x_cublas")
        return f"{family}_sgemm_128x64_tn"

    def change(x):
        it = Change()
        it.durations = {id(e): int(e.duration * (1 + x)) for e in these}
        return it

    def finish(x):
        operators = {e.args.get("External id") for e in these}
        for event in these:
            event.raw["name"] = name(event)
        for event in trace.host:
            types = event.args.get("Input type")
            if plain and types and event.args.get("External id") in operators:
                event.args["Input type"] = ["float" if "Half" in t or "BFloat16" in t else t for t in types]
    return Planted(["tensor_cores_unused", "wrong_precision"], 1.0, 15.0, change, finish, "float" if plain else "half operands")


def host_bound(trace, plan, random):
    low, high = window(trace)
    begin = low + int((high - low) * random.uniform(0, 0.4))
    end = high - int((high - low) * random.uniform(0, 0.2))
    calls = [c for c in trace.calls if id(c) in plan.launched and begin < c.start < end]
    if len(calls) < 30:
        return None
    weights = shares(random, len(calls), 10**9)

    def change(x):
        it = Change()
        it.pauses = [(c.start, int(x * w / 10**9)) for c, w in zip(calls, weights)]
        return it
    return Planted(["host_bound"], 1e5, 1e12, change, detail=f"{len(calls)} launches")


def first_use(trace, plan, random):
    low, high = window(trace)
    seen, calls = set(), []
    for event in trace.gpu:
        if event.name not in seen and event.call is not None and event.call.start > low:
            seen.add(event.name)
            calls.append(event.call)
    calls = [c for c in calls if c.start < low + 0.4 * (high - low)]
    if not calls:
        return None
    these = random.sample(calls, min(len(calls), random.randint(1, 6)))
    weights = shares(random, len(these), 1_000_000)

    def change(x):
        it = Change()
        it.extras = {id(c): int(x * w / 1_000_000) for c, w in zip(these, weights)}
        return it
    return Planted(["first_use"], 1e5, 1e12, change, detail=f"{len(these)} first launches")


def idle(trace, plan, random):
    instants = quiet(trace, [e.start for e in outer_operators(trace)])
    if len(instants) < 5:
        return None
    these = sorted(random.sample(instants, random.randint(1, 4)))
    weights = shares(random, len(these), 1_000_000)

    def change(x):
        it = Change()
        it.pauses = [(at, int(x * w / 1_000_000)) for at, w in zip(these, weights)]
        return it
    return Planted(["idle"], 1e5, 1e12, change, detail=f"{len(these)} rests")


def low_occupancy(trace, plan, random):
    totals = {}
    for event in kernels_of(trace):
        if "est. achieved occupancy %" in event.args and event.args.get("grid") and not is_collective(event.name):
            totals.setdefault(event.name, []).append(event)
    if not totals:
        return None
    names = sorted(totals, key=lambda n: -sum(e.duration for e in totals[n]))[:random.randint(3, 10)]
    these = [e for n in names for e in totals[n]]
    spread = random.uniform(0.04, 0.3)

    def change(x):
        it = Change()
        it.durations = {id(e): int(e.duration * (1 + x)) for e in these}
        return it

    def finish(x):
        for event in these:
            block = event.args.get("block") or [256, 1, 1]
            warps = max(1, block[0] * block[1] * block[2] // 32)
            blocks = float(event.args.get("blocks per SM") or 0) or 1.0
            grid = event.args["grid"]
            multiprocessors = max(grid[0] * grid[1] * grid[2] / blocks, 1)
            event.args["grid"] = [max(1, int(spread * multiprocessors)), 1, 1]
            event.args["blocks per SM"] = spread
            event.args["warps per SM"] = spread * warps
            event.args["est. achieved occupancy %"] = int(100 * min(spread * warps / 64, 1))
    return Planted(["low_occupancy"], 0.5, 25.0, change, finish, f"{len(these)} kernels on {spread:.2f} blocks a multiprocessor")


def memory_events(trace):
    return [raw for raw in trace.others if raw.get("name") == "[memory]"
            and (raw.get("args") or {}).get("Total Reserved") and (raw["args"].get("Device Id") or 0) >= 0]


def fragmentation(trace, plan, random):
    events = memory_events(trace)
    total = int(trace.device.get("totalGlobalMem") or 0)
    if len(events) < 20 or not total:
        return None
    slack, full = random.uniform(0.3, 0.6), random.uniform(0.82, 0.89)

    def finish(x):
        peak = max(int(raw["args"]["Total Allocated"]) for raw in events)
        top = max(int(raw["args"]["Total Reserved"]) for raw in events)
        reserved, tensors = full * total / top, full * total * (1 - slack) / peak
        for raw in events:
            raw["args"]["Total Reserved"] = int(int(raw["args"]["Total Reserved"]) * reserved)
            for key in ("Total Allocated", "Bytes"):
                raw["args"][key] = int(int(raw["args"][key]) * tensors)
    return Planted(["fragmentation"], 0, 0, lambda x: Change(), finish, f"slack {slack:.2f} of {full:.2f}")


def memory_capacity(trace, plan, random):
    events = memory_events(trace)
    total = int(trace.device.get("totalGlobalMem") or 0)
    if len(events) < 20 or not total:
        return None
    full = random.uniform(0.93, 0.985)

    def finish(x):
        scale = full * total / max(int(raw["args"]["Total Reserved"]) for raw in events)
        for raw in events:
            for key in ("Total Reserved", "Total Allocated", "Bytes"):
                raw["args"][key] = int(int(raw["args"][key]) * scale)
    return Planted(["memory_capacity"], 0, 0, lambda x: Change(), finish, f"{full:.3f} of the memory")


CAUSES = {c.__name__: c for c in (
    data_loading, throttled_clock, pageable_copies, small_kernels, synchronisation, communication, tensor_cores,
    host_bound, first_use, pcie, idle, low_occupancy, fragmentation, memory_capacity)}
