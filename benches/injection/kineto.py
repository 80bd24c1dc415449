"""Kineto traces for the injector: read into integer nanoseconds, written back with other times.

Shares no code with gpuwise.
"""

import gzip
import json
from decimal import Decimal

GPU = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
CALL = {"cuda_runtime", "cuda_driver", "runtime", "driver"}


def nanoseconds(microseconds):
    if type(microseconds) is int:
        return microseconds * 1000
    return int((Decimal(microseconds) * 1000).to_integral_value())


class Event:
    """One complete event: `kind` is gpu, call, host or other."""

    __slots__ = ("raw", "start", "end", "kind", "stream", "correlation", "call", "new_start", "new_end")

    def __init__(self, raw, start, end, kind):
        self.raw, self.start, self.end, self.kind = raw, start, end, kind
        self.stream = self.correlation = self.call = None
        self.new_start = self.new_end = None

    @property
    def duration(self):
        return self.end - self.start

    @property
    def name(self):
        return self.raw.get("name", "")

    @property
    def args(self):
        return self.raw.setdefault("args", {})


def kind_of(raw):
    category = (raw.get("cat") or "").lower()
    if category in GPU:
        return "gpu"
    if category in CALL:
        return "call"
    if category in ("gpu_user_annotation", "cuda_sync"):
        return "device"
    if category in ("trace", "overhead"):
        return "other"
    return "host"


class Trace:
    def __init__(self, path):
        opener = gzip.open if str(path).endswith(".gz") else open
        with opener(path, "rb") as file:
            document = json.loads(file.read(), parse_float=Decimal)
        self.bare = isinstance(document, list)
        events = document if self.bare else document.pop("traceEvents")
        self.head = {} if self.bare else document
        self.spans, self.others = [], []
        for raw in events:
            if raw.get("ph") == "X" and "dur" in raw and "ts" in raw:
                start = nanoseconds(raw["ts"])
                event = Event(raw, start, start + nanoseconds(raw["dur"]), kind_of(raw))
                args = raw.get("args") or {}
                event.correlation = args.get("correlation")
                if event.kind == "gpu":
                    event.stream = (args.get("device", raw.get("pid")), args.get("stream", raw.get("tid")))
                self.spans.append(event)
            else:
                self.others.append(raw)
        self.link()
        self.old_style = any((e.raw.get("cat") or "")[:1].isupper() for e in self.gpu)

    def link(self):
        self.gpu = sorted((e for e in self.spans if e.kind == "gpu"), key=lambda e: (e.start, e.end))
        self.calls = sorted((e for e in self.spans if e.kind == "call"), key=lambda e: e.start)
        self.host = sorted((e for e in self.spans if e.kind == "host"), key=lambda e: (e.start, -e.end))
        by_correlation = {e.correlation: e for e in self.calls if e.correlation is not None}
        for event in self.gpu:
            event.call = by_correlation.get(event.correlation)

    @property
    def rocm(self):
        return any(e.name.startswith("hip") for e in self.calls)

    @property
    def device(self):
        devices = self.head.get("deviceProperties") or []
        return devices[0] if devices and isinstance(devices[0], dict) else {}

    def main_thread(self):
        """The thread that launched most work, as (pid, tid)."""
        if hasattr(self, "main"):
            return self.main
        counts = {}
        for event in self.gpu:
            if event.call is not None:
                key = (event.call.raw.get("pid"), event.call.raw.get("tid"))
                counts[key] = counts.get(key, 0) + 1
        self.main = max(counts, key=counts.get) if counts else None
        return self.main

    def write(self, path, host_time):
        """Writes with the new times; `host_time` maps an old host instant to the new one."""
        by_correlation = {e.correlation: e for e in self.gpu if e.correlation is not None}
        streams = {}
        for event in self.gpu:
            streams.setdefault(str(event.raw.get("tid")), []).append(event)
        rows = []
        for event in self.spans:
            if event.kind == "host":
                start = host_time(event.start)
                end = start + event.raw["_length"] if "_length" in event.raw else host_time(event.end)
            elif event.kind == "device":
                start, end = device_span(event, streams.get(str(event.raw.get("tid")), []), host_time)
            elif event.kind == "other":
                start, end = event.start, host_time(event.end)
            else:
                start, end = event.new_start, event.new_end
            rows.append(text_of(event.raw, start, end - start))
        for raw in self.others:
            if raw.get("ph") == "M" or "ts" not in raw:
                rows.append(text_of(raw, None, None))
                continue
            at = nanoseconds(raw["ts"])
            target = by_correlation.get(raw.get("id")) if raw.get("ph") == "f" else None
            same = target is not None and target.start == at
            rows.append(text_of(raw, target.new_start if same else host_time(at), None))
        with open(path, "w") as file:
            if self.bare:
                file.write("[\n" + ",\n".join(rows) + "\n]\n")
            else:
                head = json.dumps(self.head, default=float)[1:-1]
                file.write("{" + head + (", " if head else "") + '"traceEvents": [\n' + ",\n".join(rows) + "\n]}\n")


def device_span(event, stream, host_time):
    """A range on the device is moved with the work in it."""
    inside = [e for e in stream if e.start >= event.start - 2000 and e.end <= event.end + 2000]
    if inside:
        return min(e.new_start for e in inside), max(e.new_end for e in inside)
    return host_time(event.start), host_time(event.end)


def microseconds(value):
    return f"{value // 1000}" if value % 1000 == 0 else f"{value // 1000}.{value % 1000:03d}"


def text_of(raw, start, duration):
    if start is None:
        return json.dumps(raw, default=float)
    rest = {key: value for key, value in raw.items() if key not in ("ts", "dur", "_length", "_new")}
    text = json.dumps(rest, default=float)[:-1] + f', "ts": {microseconds(start)}'
    if duration is not None:
        text += f', "dur": {microseconds(max(duration, 0))}'
    return text + "}"
