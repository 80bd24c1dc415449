"""Parts of the check of Slurm: node features, what Slurm says of jobs that wait, and slurmrestd."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import time

from cluster import until
from slurm_accounts import as_user

FEATURES = {"gpu2": "ib,nvme", "gpu3": "ib"}


def counted(environment, folder):
    """Scripts before Slurm's listing commands on PATH, which count how often they are run."""
    folder.mkdir()
    calls = folder / "calls"
    calls.write_text("")
    calls.chmod(0o666)
    for name in ("squeue", "sinfo"):
        script = folder / name
        script.write_text(f'#!/bin/sh\necho {name} >> {calls}\nexec {shutil.which(name)} "$@"\n')
        script.chmod(0o755)
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    return calls


def give_features(check, features=FEATURES):
    for node, words in features.items():
        check.run("scontrol", "update", f"NodeName={node}", f"AvailableFeatures={words}", f"ActiveFeatures={words}")


def features(check):
    """Leases go to nodes that have what they ask for; Slurm is told, and refuses where that has changed."""
    text = (check.folder / "fleet.toml").read_text()
    if 'features = ["ib", "nvme"]' not in text or 'features = ["ib"]' not in text:
        raise SystemExit(f"the fleet has the features of its nodes:\n{text}")
    one = check.lease("--gpu", "8xH200", "--features", "nvme,ib", "--", "sleep", "1000")
    number, _, node, _ = check.runs(one)
    constraint = check.run("squeue", "-h", "-j", number, "-o", "%f").strip()
    if node != "gpu2" or constraint not in ("ib&nvme", "nvme&ib"):
        raise SystemExit(f"{one} is on {node} with {constraint}")
    other = check.lease("--gpu", "8xH200", "--features", "ib", "--", "sleep", "1000")
    if check.runs(other)[2] != "gpu3":
        raise SystemExit(f"{other} is not on gpu3")
    # gpu1 is free all the while, and does not have it.
    waits = check.lease("--gpu", "1xH200", "--features", "ib", "--", "sleep", "1000")
    why = check.ask("lease", "explain", waits)
    if "ib" not in why or check.state(waits)["state"] != "requested":
        raise SystemExit(f"{waits} waits for a node with ib: {why}")
    check.ask("lease", "release", other)
    if check.runs(waits)[2] != "gpu3":
        raise SystemExit(f"{waits} is not on gpu3")
    said = check.ask("lease", "request", "--tenant", "vision", "--gpu", "1xH200", "--features", "rdma", "--", "true", fails=True)
    if "rdma" not in said or "ib, nvme" not in said:
        raise SystemExit(f"a feature that no node has is refused: {said}")
    for lease in (one, waits):
        check.ask("lease", "release", lease)
        check.ends(lease)
    def differ():
        return (check.folder / "serve.log").read_text().count("gpu2: its features at Slurm are ib, and in the fleet ib, nvme")

    before = differ()
    give_features(check, {"gpu2": "ib"})
    lost = check.lease("--gpu", "1xH200", "--features", "nvme", "--", "sleep", "1000")

    def refused():
        said = json.dumps(check.state(lost))
        return "Invalid feature specification" in said or "node configuration is not available" in said or said

    until("Slurm refuses it", 40, refused)
    until("it is said", 40, lambda: differ() > before or "not yet")
    give_features(check)
    check.ask("lease", "release", lost)
    check.ends(lost)
    print(f"{one}: on gpu2 with ib&nvme, {other} and {waits} on gpu3 with ib; who asks for what no node has is refused", flush=True)


def queued(check):
    """Somebody else's job has the node: what Slurm says of ours is said of the lease."""
    other = check.run("sbatch", "--parsable", "--gres=gpu:8", "--nodelist=gpu2", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    until("the other job runs", 20, lambda: check.run("squeue", "-h", "-j", other, "-o", "%T").strip() == "RUNNING" or "not yet")
    lease = check.lease("--gpu", "8xH200", "--features", "nvme", "--", "sleep", "1000")
    until("it waits at Slurm", 20, lambda: check.state(lease).get("queued", {}).get("reason") not in (None, "None") or check.state(lease))
    said, name = check.state(lease)["queued"], f"gpuwise-{lease}"
    number = check.jobs("PD")[name][0]
    priority = check.run("squeue", "-h", "-j", number, "-o", "%Q").strip()
    if said["job"] != int(number) or said["priority"] != int(priority) or said["account"] != "vision" or ("fair_share" in said) != bool(check.accounts):
        raise SystemExit(f"Slurm says {number} {priority}, and the lease {said}")
    why = " ".join(check.ask("lease", "explain", lease).split())
    factor = f"{said['fair_share']:.2f}" if check.accounts else "not known"
    if f"priority {priority}, reason {said['reason']}; fair-share of account vision {factor}" not in why:
        raise SystemExit(f"the explanation does not say so: {why}")
    if priority not in check.ask("lease", "show", lease):
        raise SystemExit("lease show does not say the priority")
    check.run("scancel", other)
    check.runs(lease)
    if "queued" in check.state(lease):
        raise SystemExit("it runs, and is said to wait")
    check.ask("lease", "release", lease)
    check.ends(lease)
    print(f"{lease}: {why[why.index('Slurm:'):]}", flush=True)


def by_rest(check):
    """From now on slurmrestd lists jobs and nodes, at a name that can be taken away; it lets in its own user."""
    name, own = check.folder / "rest.sock", check.folder / "slurm" / "rest" / "own.sock"
    words = ["slurmrestd", "-s", "openapi/v0.0.38", "-a", "rest_auth/local", f"unix:{own}"]
    check.beside.append(subprocess.Popen([*as_user(), *words], env=check.environment, stdout=check.log, stderr=check.log))
    until("slurmrestd listens", 20, lambda: own.exists() or "not yet")
    name.symlink_to(own)
    check.more = ["--slurm-rest", f"unix:{name}"]


def listed(path, what):
    """What slurmrestd lists, over its socket."""
    connection = http.client.HTTPConnection("slurmrestd")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    connection.request("GET", f"/slurm/v0.0.38/{what}")
    return json.loads(connection.getresponse().read())[what]


def rest(check):
    """While slurmrestd lists, no command does; where it does not answer, commands do, and then it again."""
    log = check.folder / "serve.log"
    if "slurmrestd v0.0.38 at unix:" not in log.read_text():
        raise SystemExit("it is not said which version is used")
    lease = check.lease("--gpu", "1xH200", "--cpu", "32", "--", "sleep", "1000")
    check.runs(lease)
    # The check itself asks squeue: from here on it does not.
    calls = check.counted.read_text().count("\n")
    time.sleep(13)
    if (more := check.counted.read_text().count("\n") - calls) != 0:
        raise SystemExit(f"{more} commands were run beside slurmrestd")
    name = check.folder / "rest.sock"
    target = os.readlink(name)
    name.unlink()
    until("commands list", 20, lambda: check.counted.read_text().count("\n") > calls + 5 or "not yet")
    if "Slurm's commands are asked in its place" not in log.read_text():
        raise SystemExit("it is not said that commands are asked")
    check.ask("lease", "release", lease)
    check.ends(lease)
    name.symlink_to(target)
    said = log.read_text().count("slurmrestd v0.0.38 at unix:")
    again = check.lease("--gpu", "1xH200", "--", "sleep", "1000")
    until("slurmrestd lists again", 60, lambda: log.read_text().count("slurmrestd v0.0.38 at unix:") > said or "not yet")
    check.runs(again)
    times = look_times(check, name)
    check.ask("lease", "release", again)
    check.ends(again)
    print(f"slurmrestd lists in place of commands, and commands where it does not answer; {times}", flush=True)


def look_times(check, name):
    """Milliseconds of a look by commands, and by slurmrestd."""
    plain = {**check.environment, "PATH": os.environ["PATH"]}

    def mean(act):
        begin = time.monotonic()
        for _ in range(20):
            act()
        return (time.monotonic() - begin) / 20 * 1e3

    command = mean(lambda: subprocess.run(["squeue", "--json", "--states=all"], env=plain, capture_output=True, check=True))
    rest = mean(lambda: listed(name, "jobs"))
    return f"a look at {len(listed(name, 'jobs'))} jobs takes {command:.1f} ms by squeue, {rest:.1f} ms by slurmrestd"
