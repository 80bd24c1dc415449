"""Three bills by the formulas of docs/concepts/total-cost.md, in exact fractions.

Shares no code with gpuwise: `python3 worked.py` writes steady.csv, growing.csv and shrinking.csv beside
itself, each with its inputs, its settings, its months and its totals, to the cent. The test
`bill_worked` holds gpuwise against them.
"""

import csv
import math
import pathlib
from fractions import Fraction as F

HOURS = 730


def to(value, decimals):
    """Rounded half away from zero."""
    scaled = abs(value) * 10**decimals
    units = (scaled.numerator * 2 + scaled.denominator) // (scaled.denominator * 2)
    return F(units if value >= 0 else -units, 10**decimals)


def up(value):
    return math.ceil(to(value, 9))


def down(value):
    return math.floor(to(value, 9))


def bill(inputs, settings):
    i = {key: F(value) for key, value in inputs.items()}
    horizon, now, step = (int(settings[k]) for k in ("horizon", "hosts_now", "step"))
    loads = [F(x) for x in settings["load"].split()]
    life, lead, review = int(i["life"] * 12), int(i["lead"]), int(i["review"])
    gpus = F(settings["gpus_per_host"])
    out = {}

    # Time and load.
    rate = to(i["rate"] / 12, 12)
    discount = [F(1)]
    for _ in range(max(horizon, life)):
        discount.append(to(discount[-1] / (1 + rate), 12))
    load = loads[:horizon]
    while len(load) < horizon:
        load.append(to(load[-1] * (1 + i["growth"]), 9))
    bears = i["capacity"] * step
    extra = max(0, now - step * up(load[0] / bears))
    needed = [extra + step * up(x / bears) for x in load]
    target = [extra + step * up(x * (1 + i["safety"] * i["spread"]) / bears) for x in load]

    def close(name, months, worth=None):
        out[name + "_months"] = months
        left = sum(worth) if worth else 0
        out[name + "_total"] = to(sum(months) - left, 6)
        spent = sum(a * b for a, b in zip(months, discount))
        out[name + "_discounted"] = to(spent - left * discount[horizon], 6)

    # How many hosts are in use beyond the first so many, in the mean: host k while the load is above
    # (k - 1) / hosts of its peak, hour by hour.
    time = to(min(F(1), 2 * i["duty"]), 12)
    depth = to(max(F(1, 1000), 1 - max(F(0), 2 * i["duty"] - 1)), 12)

    def in_use(hosts, first):
        hosts = max(1, hosts)
        total = F(0)
        for k in range(min(first, hosts) + 1, hosts + 1):
            level = F(k - 1, hosts)
            total += 1 if level < 1 - depth else time * (1 - level) / depth
        return to(total, 9)

    # Rented.
    rent = to(i["on_demand"] * i["rent_factor"], 6)
    close("on_demand", [to(n * HOURS * rent, 6) for n in needed])
    close("following", [to(in_use(n, 0) * HOURS * rent, 6) for n in needed])
    if "reserved" in i:
        close("reserved", [to(n * HOURS * i["reserved"], 6) for n in needed])
    if "spot" in i:
        price = i["spot"] * i["rent_factor"] * (1 + i["interruption"])
        close("spot", [to(n * HOURS * price, 6) for n in needed])

    # A host of one's own.
    capital = to(i["capital"] * (1 + i["network"]) * (1 + i["spares"]), 6)
    power = to(i["power"] * i["pue"] * HOURS * i["energy"], 6)
    space = to(i["peak_power"] * i["space"], 6)
    people = to(i["staff"] / 12, 6)
    support = to(capital * i["support"] / 12, 6)
    running = power + space + people + support
    charge = to((capital - capital * i["residual"] * discount[life]) / sum(discount[:life]), 6)
    out["owned_month"] = charge + running
    out["owned_gpu_hour"] = to(out["owned_month"] / (HOURS * i["availability"] * gpus), 6)
    break_even = to(out["owned_month"] / (HOURS * i["availability"] * rent), 12)
    out["break_even"] = break_even

    def own(name, growth, owned, rented=None):
        bought, replaced = [], []
        for m in range(horizon):
            old = bought[m - life] if m >= life else 0
            replaced.append(old)
            bought.append(growth[m] + old)
        months, worth = [], []
        for m in range(horizon):
            cost = bought[m] * capital - replaced[m] * capital * i["residual"] + owned[m] * running
            if rented is not None:
                cost += rented[m] * HOURS * rent
            months.append(to(cost, 6))
            age = horizon - m
            share = i["residual"] + (1 - i["residual"]) * F(life - age, life)
            worth.append(to(bought[m] * capital * share, 6) if age <= life else F(0))
        close(name, months, worth)

    # Bought as the load grows.
    arriving, owned = [], []
    there = now
    for m in range(horizon):
        arrives = 0
        if m >= lead and (m - lead) % review == 0:
            arrives = max(0, max(target[m : m + review]) - there)
        there += arrives
        arriving.append(arrives)
        owned.append(there)
    out["arriving"], out["needed"] = arriving, needed
    short = [max(0, n - o) for n, o in zip(needed, owned)]
    own("owned", [arriving[0] + now] + arriving[1:], owned, short)

    # All bought now.
    most = max(now, max(target))
    there = [now if m < lead else most for m in range(horizon)]
    growth = [there[0]] + [b - a for a, b in zip(there, there[1:])]
    short = [max(0, n - o) for n, o in zip(needed, there)]
    own("owned_at_once", growth, there, short)

    # Base owned, peaks rented.
    share = 1 - to(break_even * depth / time, 12)
    base, rented = [], []
    for m in range(horizon):
        worth = min(needed[m], down(share * needed[m]) + 1) if break_even <= time else 0
        if m == 0:
            base.append(worth)
        elif m < lead:
            base.append(base[-1])
        else:
            base.append(max(base[-1], worth))
        rented.append(in_use(needed[m], base[m]))
    own("hybrid", [base[0]] + [b - a for a, b in zip(base, base[1:])], base, rented)

    # What a unit costs.
    per_month = F(settings["per_load_month"])
    served = [to(x * i["duty"] * per_month, 6) for x in load]
    discounted = sum(a * b for a, b in zip(served, discount))
    for name in [k[: -len("_discounted")] for k in list(out) if k.endswith("_discounted")]:
        out[name + "_per_unit_0"] = to(out[name + "_discounted"] / discounted, 6)

    # Energy.
    energy = [to(n * i["power"] * i["pue"] * HOURS, 6) for n in needed]
    out["energy_total"] = to(sum(energy), 6)
    if "grid" in i:
        out["carbon"] = to(out["energy_total"] * i["grid"] / 1000, 6)
    return out


COMMON = {
    "interruption": "0.08", "rent_factor": "1", "network": "0.2", "spares": "0.05", "life": "5",
    "residual": "0.1", "rate": "0.08", "power": "7.1", "peak_power": "10.2", "pue": "1.35",
    "energy": "0.0824", "space": "184.06", "staff": "9500", "support": "0.04",
    "availability": "0.97", "duty": "0.55", "growth": "0", "lead": "0", "review": "1",
    "safety": "0", "spread": "0",
}
WORKED = {
    # Eight H100 that stay as they are, images.
    "steady": (
        COMMON | {"on_demand": "31.464", "reserved": "19.22", "spot": "11.017", "capital": "310000",
                  "capacity": "24"},
        {"currency": "USD", "horizon": "36", "hosts_now": "1", "step": "1", "gpus_per_host": "8",
         "load": "18.5", "per_load_month": "2628000"},
    ),
    # A service that grows by 7 % a month, replicas of two hosts, deliveries of a quarter each.
    "growing": (
        COMMON | {"on_demand": "27.20", "capital": "287500", "capacity": "3.75", "growth": "0.07",
                  "lead": "4", "review": "3", "safety": "1.28", "spread": "0.15", "rate": "0.095",
                  "rent_factor": "0.9", "grid": "380"},
        {"currency": "USD", "horizon": "48", "hosts_now": "6", "step": "2", "gpus_per_host": "8",
         "load": "17.25", "per_load_month": "2628"},
    ),
    # Euros, given months that rise and fall, hosts that live two years, a busy service.
    "shrinking": (
        COMMON | {"on_demand": "9.85", "spot": "4.4", "capital": "96400", "capacity": "11",
                  "life": "2", "residual": "0.22", "duty": "0.3", "energy": "0.1899", "pue": "1.18",
                  "power": "2.35", "peak_power": "3.1", "space": "201.5", "staff": "3100",
                  "lead": "2", "review": "2", "safety": "1", "spread": "0.1", "grid": "344.5",
                  "rate": "0.061"},
        {"currency": "EUR", "horizon": "30", "hosts_now": "4", "step": "1", "gpus_per_host": "4",
         "load": " ".join(str(x) for x in [
             "31", "35.5", "41", "52", "60.25", "71", "69", "75", "88", "97", "104", "131", "128",
             "119", "140", "155", "171", "160", "152", "133", "120", "99", "87", "83", "80", "66",
             "61", "52", "44", "40"]),
         "per_load_month": "730"},
    ),
}


def main():
    here = pathlib.Path(__file__).parent
    for name, (inputs, settings) in WORKED.items():
        with (here / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["kind", "key", "value"])
            rows.writerows(["input", key, value] for key, value in inputs.items())
            rows.writerows(["setting", key, value] for key, value in settings.items())
            for key, value in bill(inputs, settings).items():
                if isinstance(value, list):
                    whole = key in ("arriving", "needed")
                    shown = [str(x) if whole else f"{float(to(x, 2)):.2f}" for x in value]
                    rows.writerow(["months", key, " ".join(shown)])
                else:
                    places = 6 if key in ("break_even", "owned_gpu_hour") or "per_unit" in key else 2
                    rows.writerow(["figure", key, f"{float(to(value, places)):.{places}f}"])


if __name__ == "__main__":
    main()
