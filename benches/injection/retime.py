"""What a trace looks like after a change: one pass over it that keeps what waits for what.

Host time is moved by pauses; each call that waited for the GPU waits again; each piece of GPU work
begins after its launch, after the work before it on its stream, and after the work on another stream
that it was seen to follow closely. Shares no code with gpuwise.
"""

from bisect import bisect_right

CLOSE = 20_000          # ns: work that begins this soon after another stream's end is taken to wait for it
QUEUED = 50_000         # ns: a longer gap behind queued work has another reason, which stays
SMALLEST_GAP = 800      # ns between two kernels of one stream
QUICKEST = 4_000        # ns from a launch to its kernel
COLLECTIVE = ("nccl", "rccl", "::ep::", "deep_ep", "all_reduce", "allreduce")


def is_collective(name):
    name = name.lower()
    return any(part in name for part in COLLECTIVE)


class Change:
    """What is changed in one trace."""

    def __init__(self):
        self.pauses = []        # (old host instant, ns): the host stands still there
        self.durations = {}     # id(GPU event) -> new duration
        self.added = []         # events that are new, in old time; already in trace.spans
        self.dependencies = {}  # id(GPU event) -> GPU events that must end before
        self.blocking = set()   # id(call) that now returns only after its own work
        self.extras = {}        # id(call) -> ns by which the call itself is lengthened

    def merged(self, other):
        both = Change()
        both.pauses = self.pauses + other.pauses
        both.durations = dict(self.durations)
        for key, value in other.durations.items():
            both.durations[key] = max(value, both.durations.get(key, 0))
        both.added = self.added + other.added
        both.dependencies = {**self.dependencies, **other.dependencies}
        both.blocking = self.blocking | other.blocking
        both.extras = {**self.extras, **other.extras}
        return both


class HostMap:
    """Old host time -> new host time, piecewise linear."""

    def __init__(self, pauses):
        pauses = sorted(pauses)
        self.at = [at for at, _ in pauses]
        self.total = [0]
        for _, extra in pauses:
            self.total.append(self.total[-1] + extra)
        self.steps_at, self.steps = [], []

    def static(self, at):
        return self.total[bisect_right(self.at, at)]

    def __call__(self, at):
        index = bisect_right(self.steps_at, at)
        return at + self.static(at) + (self.steps[index - 1] if index else 0)

    def arrive(self, old, new):
        """At the old instant it is now the new one: what follows is moved by as much."""
        if self.steps_at and old <= self.steps_at[-1]:
            return
        self.steps_at.append(old)
        self.steps.append(new - old - self.static(old))


class Plan:
    """What was seen in the trace before any change; made once for each trace."""

    def __init__(self, trace):
        gpu = trace.gpu
        self.ends = sorted(gpu, key=lambda e: e.end)
        self.end_times = [e.end for e in self.ends]
        self.before, self.cross = {}, {}
        last = {}
        for event in gpu:
            self.before[id(event)] = last.get(event.stream)
            last[event.stream] = event
            index = bisect_right(self.end_times, event.start) - 1
            other = self.ends[index] if index >= 0 else None
            if other is not None and other is not event and other.stream != event.stream:
                if event.start - other.end <= CLOSE:
                    self.cross[id(event)] = other
        self.originals = {id(e) for e in gpu}
        self.launched = {}
        for event in gpu:
            if event.call is not None:
                self.launched.setdefault(id(event.call), []).append(event)


def waits_for_gpu(call):
    return "Synchronize" in call.name or "Memcpy" in call.name


def retime(trace, plan, change, collectives=None):
    """A generator: gives (event, start) at each collective when `collectives` is set, and is sent its
    end; returns the map of host time."""
    host = HostMap(change.pauses)
    added = sorted((e for e in change.added if e.kind == "gpu"), key=lambda e: e.start)
    launched = dict(plan.launched)
    for event in added:
        launched.setdefault(id(event.call), []).append(event)
    loose = [e for e in trace.gpu if e.call is None and id(e) in plan.originals]
    calls = active_calls(trace, change)
    items = sorted([(c.start, 0, n, c) for n, c in enumerate(calls)] +
                   [(e.start - 1, 1, n, e) for n, e in enumerate(loose)], key=lambda i: i[:3])
    tail = {}
    latest = latest_old = 0
    for _, which, _, item in items:
        if which == 0:
            call = item
            call.new_start = host(call.start)
            extra = change.extras.get(id(call), 0)
            call.new_end = call.new_start + call.raw.get("_length", call.duration) + extra
            if extra:
                host.arrive(call.end, max(call.new_end, host(call.end)))
            work = launched.get(id(call), ())
        else:
            call, work = None, (item,)
        for event in work:
            start = begin(event, call, host, plan, change, tail)
            duration = change.durations.get(id(event), event.duration)
            event.new_start, event.new_end = start, start + duration
            if collectives is not None and is_collective(event.name):
                event.new_end = max((yield event, start), start + 1)
            tail[event.stream] = event
            latest = max(latest, event.new_end)
            latest_old = max(latest_old, event.end)
        if call is not None and (waits_for_gpu(call) or id(call) in change.blocking):
            finish(call, work, host, change, latest_old, latest)
    return host


def active_calls(trace, change):
    return sorted(trace.calls + [e for e in change.added if e.kind == "call"], key=lambda e: e.start)


def begin(event, call, host, plan, change, tail):
    before = plan.before.get(id(event)) or None
    previous = tail.get(event.stream)
    bounds = [0]
    original = id(event) in plan.originals
    if call is not None:
        latency = event.start - call.start
        queued = before is not None and before.end > call.start
        if original and not queued:
            bounds.append(host(call.start) + latency)
        else:
            bounds.append(host(call.start) + min(latency, QUICKEST) + change.extras.get(id(call), 0))
    else:
        queued = before is not None
        bounds.append(host(event.start) if before is None else 0)
    if previous is not None:
        gap = SMALLEST_GAP
        if original and before is not None and before is previous:
            gap = event.start - before.end
            if call is not None and not queued:
                gap = min(gap, SMALLEST_GAP)
            elif gap > QUEUED and id(event) in plan.cross:
                gap = SMALLEST_GAP
        bounds.append(previous.new_end + gap)
    other = plan.cross.get(id(event))
    if other is not None and other.new_end is not None and (queued or call is None or other.end > call.start):
        bounds.append(other.new_end + min(event.start - other.end, CLOSE))
    for other in change.dependencies.get(id(event), ()):
        if other.new_end is not None:
            bounds.append(other.new_end + SMALLEST_GAP)
    return max(bounds)


def finish(call, work, host, change, latest_old, latest):
    """A call that waits: until the work it waited for ended anew."""
    if id(call) in change.blocking or (work and "Memcpy" in call.name):
        old = max((e.end for e in work), default=call.start)
        new = max((e.new_end for e in work), default=call.new_start)
        waited = id(call) in change.blocking or call.end >= old
    else:
        old = latest_old
        new = latest
        waited = "Synchronize" in call.name and (call.raw.get("_new") or call.end >= old - 2000)
    if not waited or "Event" in call.name:
        return
    own = call.duration if old <= call.start else max(0, min(call.end - old, call.duration))
    if call.raw.get("_new") or id(call) in change.blocking:
        own = 4_000
    call.new_end = max(call.new_start + own, new + min(own, 4_000) if old <= call.start else new + own)
    host.arrive(call.end, call.new_end)


def run(trace, plan, change):
    """Retimes one trace alone; gives the map of host time."""
    process = retime(trace, plan, change)
    try:
        next(process)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("a single trace waits for nobody")


def run_ranks(traces, plans, changes):
    """Retimes ranks together: a collective ends on all of them when the last one has come.

    Clocks are set by the collectives' own ends. Gives the maps of host time.
    """
    orders = [[e for e in t.gpu if is_collective(e.name)] for t in traces]
    count = min(len(order) for order in orders)
    offsets = [median([order[k].end - orders[0][k].end for k in range(count)]) for order in orders]
    known = [{id(e): k for k, e in enumerate(order[:count])} for order in orders]
    processes = [retime(t, p, c, collectives=True) for t, p, c in zip(traces, plans, changes)]
    maps, waiting = [None] * len(traces), [None] * len(traces)

    def advance(rank, value=None):
        try:
            waiting[rank] = processes[rank].send(value)
        except StopIteration as stop:
            waiting[rank], maps[rank] = None, stop.value

    for rank in range(len(traces)):
        advance(rank)
    while any(w is not None for w in waiting):
        for rank, pair in enumerate(waiting):
            while waiting[rank] is not None and id(waiting[rank][0]) not in known[rank]:
                event, start = waiting[rank]
                advance(rank, start + event.duration)
        live = [r for r, w in enumerate(waiting) if w is not None]
        if not live:
            break
        number = min(known[r][id(waiting[r][0])] for r in live)
        these = [r for r in live if known[r][id(waiting[r][0])] == number]
        old = max(orders[r][number].start - offsets[r] for r in these)
        new = max(waiting[r][1] - offsets[r] for r in these)
        for r in these:
            event, start = waiting[r]
            factor_extra = changes[r].durations.get(id(event), event.duration) - event.duration
            end = event.end + (new - old) + factor_extra
            advance(r, max(end, start + 1000))
    return maps


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0
