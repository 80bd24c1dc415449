#!/usr/bin/env python3
"""Plants causes in real traces by seed, asks `gpuwise profile` what it finds, and scores the answers.

    run.py plant --traces /data/profile/traces --out CASES [--groups a,b] [--jobs 2] [--seeds 2,3]
    run.py score --traces /data/profile/traces --out CASES --binary target/release/gpuwise [--half judge]

Even seeds are for development, odd seeds for judging. See README.md for what counts.
"""

import argparse
import collections
import glob
import json
import multiprocessing
import os
import random as chance
import shlex
import subprocess
import sys

import inject
from causes import CAUSES

SINGLE_SEEDS = (0, 1)
PAIR_TRIES, PAIRS, PAIRS_LARGE = 24, 6, 2
LARGE = ("tb_resnet50_nw0_a", "tb_resnet50_nw0_b", "tb_resnet50_nw4_a", "param_linear", "param_resnet",
         "hta_ns_resolution", "hta_trace_diff_control", "hta_negative_queue",
         "tl_h100_google_owlv2-large-patch14-ensemble", "tl_mi300_resnet_act_checkpoint",
         "tl_mi300_facebook_timesformer-base-finetuned-k400")


def causes_of(group):
    return sorted(CAUSES) + ["straggler"] if len(group.traces) == 1 else list(inject.MANY_RANKS)


def plant_group(task):
    name, traces, out, seeds = task
    made, refused = [], {}
    able = []
    # A fresh reading for each case: planting renames and moves what it plants in.
    group = inject.Group(name, traces)
    place = sorted(inject.GROUPS).index(name)
    for index, cause in enumerate(causes_of(group)):
        # Large traces carry each cause once, with even and odd seeds in turn.
        for seed in [seeds[(place + index) % 2]] if name in LARGE else seeds:
            planted = inject.plant(group, [cause], seed)
            if isinstance(planted, str):
                refused[cause] = planted
                continue
            able.append(cause) if cause not in able else None
            folder = os.path.join(out, inject.case_name(name, [cause], seed))
            inject.write(group, *planted, folder)
            made.append(folder)
            group = inject.Group(name, traces)
    # Other seeds give other pairs, numbered apart.
    number = 0 if seeds == SINGLE_SEEDS else 100 * seeds[0]
    random = chance.Random(f"pairs {name}" + (f" {number}" if number else ""))
    wanted = number + (PAIRS_LARGE if name in LARGE else PAIRS)
    for _ in range(0 if len(able) < 2 else PAIR_TRIES):
        names = random.sample(able, 2)
        if number >= wanted or not inject.allowed(names):
            continue
        planted = inject.plant(group, names, number)
        if isinstance(planted, str):
            refused["+".join(names)] = planted
            continue
        folder = os.path.join(out, inject.case_name(name, names, number))
        inject.write(group, *planted, folder)
        made.append(folder)
        number += 1
        group = inject.Group(name, traces)
    return name, made, refused


def squeeze(folder):
    for path in glob.glob(os.path.join(folder, "*.json")):
        if not path.endswith("truth.json"):
            subprocess.run(["gzip", "-1f", path], check=True)


def plant_all(given):
    names = given.groups.split(",") if given.groups else list(inject.GROUPS)
    seeds = tuple(int(seed) for seed in given.seeds.split(","))
    tasks = [(name, given.traces, given.out, seeds) for name in names]
    with multiprocessing.Pool(given.jobs, maxtasksperchild=1) as pool:
        for name, made, refused in pool.imap_unordered(plant_group, tasks, chunksize=1):
            for folder in made:
                squeeze(folder)
            with open(os.path.join(given.out, f"{name}.refused.json"), "w") as file:
                json.dump(refused, file, indent=1)
            print(f"{name}: {len(made)} cases, {len(refused)} refused", flush=True)


def ask(command, files):
    answer = subprocess.run(shlex.split(command) + files, capture_output=True, text=True, timeout=600)
    if answer.returncode not in (0, 1) or not answer.stdout:
        return None, answer.stderr.strip()[-300:]
    document = json.loads(answer.stdout)
    return document.get("findings") or document.get("summary", {}).get("findings", []), None


def gain_of(finding):
    """The middle of the gain, as a share; what has no figure counts nothing."""
    gain = finding.get("gain") or {}
    low, high = gain.get("low"), gain.get("high")
    return 0.0 if low is None or high is None else (low + high) / 2


def best(findings, accept):
    """Place (from 0) and gain of the first finding of these classes."""
    for place, finding in enumerate(findings):
        if finding["class"] in accept:
            return place, gain_of(finding)
    return None, 0.0


def judge(task):
    folder, command, base = task
    with open(os.path.join(folder, "truth.json")) as file:
        truth = json.load(file)
    files = sorted(p for p in glob.glob(os.path.join(folder, "*.json*")) if not p.endswith("truth.json"))
    findings, error = ask(command, files)
    result = {"case": os.path.basename(folder), "truth": truth, "error": error, "ok": False,
              "order": [(f["class"], round(gain_of(f), 3)) for f in findings or []][:6]}
    if findings is None:
        return result
    causes = truth["causes"]
    found = [best(findings, c["accept"]) for c in causes]
    result["found"] = [place is not None for place, _ in found]
    if len(causes) == 1:
        result["ok"] = found[0][0] == 0
    else:
        strong, weak = (0, 1) if causes[0]["share"] >= causes[1]["share"] else (1, 0)
        places = [found[strong][0], found[weak][0]]
        near = abs(found[0][1] - found[1][1]) <= 0.25 * max(found[0][1], found[1][1])
        alike = causes[weak]["share"] >= 0.8 * causes[strong]["share"]
        memory = any(c["share"] == 0 for c in causes)
        result["ok"] = sorted(p if p is not None else 99 for p in places) == [0, 1] and (
            places[0] == 0 or near or alike or memory)
    result["false_in_base"] = []
    for cause, (place, gain) in zip(causes, found):
        was_place, was = best(base, cause["accept"])
        if was_place is not None and was > 0.5 * max(gain, 1e-9):
            result["false_in_base"].append((cause["class"], round(was, 3), round(gain, 3)))
    low_high = [(f.get("gain") or {}) for f in findings]
    result["within"] = []
    for cause, (place, _) in zip(causes, found):
        if place is not None and cause["share"] > 0:
            gain = low_high[place]
            if gain.get("low") is not None:
                result["within"].append(gain["low"] - 0.02 <= cause["share"] <= gain["high"] + 0.02)
    return result


def score(given):
    folders = sorted(f for f in glob.glob(os.path.join(given.out, "*.*")) if os.path.isdir(f))
    parity = {"develop": (0,), "judge": (1,), "both": (0, 1)}[given.half]
    folders = [f for f in folders if int(f.rsplit(".", 1)[1]) % 2 in parity]
    if given.only:
        folders = [f for f in folders if given.only in f]
    groups = sorted({os.path.basename(f).rsplit(".", 2)[0] for f in folders})
    with multiprocessing.Pool(given.jobs) as pool:
        files = {g: [os.path.join(given.traces, f) for f in inject.GROUPS[g]] for g in groups}
        answers = pool.starmap(ask, [(given.binary, files[g]) for g in groups])
        base = {g: a[0] or [] for g, a in zip(groups, answers)}
        tasks = [(f, given.binary, base[os.path.basename(f).rsplit(".", 2)[0]]) for f in folders]
        results = pool.map(judge, tasks, chunksize=1)
    report(results, base, given)


def report(results, base, given):
    classes = collections.defaultdict(lambda: [0, 0, 0, 0])
    for result in results:
        causes = result["truth"]["causes"]
        key = causes[0]["class"] if len(causes) == 1 else "(pairs)"
        row = classes[key]
        row[0] += 1
        row[1] += all(result.get("found", [False]))
        row[2] += result["ok"]
        row[3] += bool(result.get("false_in_base"))
        if not result["ok"] or result.get("false_in_base") or given.verbose:
            shares = ", ".join(f"{c['class']} {c['share']:.2f}" for c in causes)
            why = "" if result["ok"] else "MISS "
            why += f"false in base {result['false_in_base']} " if result.get("false_in_base") else ""
            print(f"{why}{result['case']}\n     true: {shares}; said: {result['order']} {result['error'] or ''}")
    print(f"\n{'class':22} cases found first false-in-base")
    for key, (count, found, first, false) in sorted(classes.items()):
        print(f"{key:22} {count:5} {found:5} {first:5} {false:5}")
    total = [sum(row[k] for row in classes.values()) for k in range(4)]
    within = [w for r in results for w in r.get("within", [])]
    print(f"{'all':22} {total[0]:5} {total[1]:5} {total[2]:5} {total[3]:5}")
    print(f"first: {100 * total[2] / max(total[0], 1):.1f} %; true cost within the stated gain: "
          f"{sum(within)} of {len(within)}")
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"results": results, "untouched": base}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plant", "score"])
    parser.add_argument("--traces", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--binary", help="the command that is given the files; prints JSON with `findings`")
    parser.add_argument("--half", choices=["develop", "judge", "both"], default="both")
    parser.add_argument("--only", help="cases whose name holds this")
    parser.add_argument("--groups")
    parser.add_argument("--seeds", default="0,1", help="an even and an odd one; others than 0,1 plant new cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    if given.what == "plant":
        plant_all(given)
    else:
        if not given.binary:
            sys.exit("score needs --binary")
        binary = shlex.split(given.binary)
        if os.path.basename(binary[0]) == "gpuwise" and len(binary) == 1:
            given.binary += " profile --format json"
        score(given)


if __name__ == "__main__":
    main()
