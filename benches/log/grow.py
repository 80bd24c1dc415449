"""Makes the log of a broker long: leases that were asked for, placed, active and over, again and again.

    gpuwise serve --fleet fleet.toml --store sqlite://log.db --listen 127.0.0.1:8671
    python benches/log/grow.py log.db 1000000
    time gpuwise store check --store sqlite://log.db

The log must hold a fleet and nothing but its token and tenants; the first tenant leases. Each lease is five
events: asked for, planned, active, told to end, over. What is written is what a broker writes for the
example of `docs/guides/serve.md`; `gpuwise store check` says whether it is one that can have happened.
"""

import json
import sqlite3
import sys

SECOND = 1_000_000_000


def lease(number, tenant, at, gpus):
    """The events of a lease of one GPU of `gpus`, one second apart."""
    place = {
        "place": {
            "job": number,
            "assignments": [{"node": (number % gpus) // 8, "gpus": [{"gpu": number % gpus, "part": {"whole": {}}}]}],
        }
    }
    job = {
        "id": number, "name": f"L-{number}", "tenant": tenant, "queue": 0, "priority": 0, "submitted_ns": at,
        "worker": {"cpu_milli": 0, "memory_mib": 0, "gpu": {"whole": {
            "count": 1, "kinds": [0], "need": {"memory_mib": 0, "tflops": 0, "bandwidth_gb_per_s": 0}}}},
        "gang": {"least": 1, "preferred": 1, "most": 1}, "topology": None, "spread": None, "deadline_ns": None,
        "preemption": {"never": {}}, "grace_ns": 0, "duration": {"expected_ns": 1800 * SECOND, "spread": 0.0}, "speeds": [],
        "near": [],
    }
    ask = {"tenant": tenant, "gpu": "H100", "for": "30min"}
    yield at, "lease_requested", {
        "lease": number, "ask": ask, "job": job, "length_ns": 1800 * SECOND,
        "key": [f"key-{number}", f"{number:064x}"],
    }
    plan = {"number": number, "parent": number - 1, "made_ns": at, "actions": [place]}
    weighed = [["placement score", 0], ["placement score with forecast arrivals", 0]]
    yield at, "planned", {"plan": plan, "placed": [{"lease": number, "candidates": 8, "weighed": weighed}]}
    yield at + SECOND, "fleet", {"event": {"done": {"action": place, "attempt": number}}}
    yield at + 2 * SECOND, "draining", {"lease": number, "reason": "its time is over"}
    yield at + 3 * SECOND, "ended", {"lease": number, "how": "ended", "reason": "its time is over"}


def main():
    path, wanted = sys.argv[1], int(sys.argv[2])
    database = sqlite3.connect(path)
    seq, at = database.execute("SELECT MAX(seq), MAX(at_ns) FROM log_events").fetchone()
    fleet = json.loads(database.execute("SELECT body FROM log_events WHERE seq = 1").fetchone()[0])
    gpus = len(fleet["began"]["fleet"]["gpus"])
    tenant = database.execute("SELECT body FROM log_events WHERE kind = 'tenant_set'").fetchone()[0]
    tenant = json.loads(tenant)["tenant_set"]["tenant"]["queue"]["name"]

    def rows():
        nonlocal seq, at
        number = 0
        while True:
            number += 1
            at += 4 * SECOND
            for when, kind, body in lease(number, tenant, at, gpus):
                seq += 1
                yield seq, when, kind, json.dumps({kind: body}, separators=(",", ":"))
                if seq >= wanted:
                    return

    with database:
        database.executemany("INSERT INTO log_events (seq, at_ns, kind, body) VALUES (?, ?, ?, ?)", rows())


main()
