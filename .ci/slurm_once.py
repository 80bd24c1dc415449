"""Parts of the check of Slurm: a lease runs once, whatever is killed or silent, and is charged until it ended."""

import datetime
import os
import shutil
import signal
import subprocess
import time

import slurm_accounts
from cluster import until

# Before sbatch on PATH, by what MODE says: it submits and says nothing, submits after it was given up, submits twice, or
# submits and kills the broker before it hears of it.
SBATCH = """#!/bin/sh
mode=$(cat {folder}/mode)
echo "$mode" >> {folder}/submitted
case "$mode" in
hangs) cat > {folder}/script; {real} "$@" < {folder}/script > /dev/null; exec sleep 1000 ;;
late) cat > {folder}/script.$$
    setsid sh -c 'sleep 36; exec "$@" > /dev/null' sh {folder}/late {real} {folder}/script.$$ "$@" > /dev/null 2>&1 &
    exec sleep 1000 ;;
twice) cat > {folder}/script; {real} "$@" < {folder}/script > /dev/null; exec {real} "$@" < {folder}/script ;;
kills) {real} "$@" > {folder}/number; kill -9 $(cat {folder}/broker); exec sleep 1 ;;
esac
exec {real} "$@"
"""

LATE = """#!/bin/sh
real=$1; script=$2; shift 2
exec "$real" "$@" < "$script"
"""


def between(environment, folder):
    """A script before sbatch on PATH."""
    own = folder / "between"
    own.mkdir()
    own.chmod(0o777)
    for name, text in [("sbatch", SBATCH.format(folder=own, real=shutil.which("sbatch"))), ("late", LATE)]:
        (own / name).write_text(text)
        (own / name).chmod(0o755)
    (own / "mode").write_text("")
    (own / "submitted").write_text("")
    (own / "submitted").chmod(0o666)
    environment["PATH"] = f"{own}:{environment['PATH']}"


def mode(check, text):
    (check.folder / "between" / "mode").write_text(text)
    (check.folder / "between" / "broker").write_text(str(check.broker.pid))


def begins(check, lease):
    return check.ask("lease", "logs", lease).count("begins")


def once(check, lease, wait=0):
    """One job of a lease has run, and what was submitted beside it never does."""
    check.runs(lease, 120)
    time.sleep(wait)
    until(f"one job of {lease} is left", 60, lambda: len(check.jobs_of(lease)) == 1 or check.ever(lease))
    if begins(check, lease) != 1:
        raise SystemExit(f"{lease} began {begins(check, lease)} times: {check.ever(lease)}")


def ended(check, *leases):
    for lease in leases:
        check.ask("lease", "release", lease)
        check.ends(lease)
        if left := check.jobs_of(lease):
            raise SystemExit(f"{lease} is over, and Slurm has {left}")


def silent(check):
    """sbatch submits and does not answer, submits after it was given up, or submits twice: what runs, runs once."""
    for how, wait in [("twice", 3), ("hangs", 3), ("late", 3)]:
        mode(check, how)
        lease = check.lease("--gpu", "1xH200", "--", "sh", "-c", "echo begins; sleep 1000")
        submitted = check.folder / "between" / "submitted"
        until("sbatch has begun", 50, lambda: how in submitted.read_text() or "not yet")
        time.sleep(1)
        mode(check, "")
        once(check, lease, wait)
        print(f"{lease}: sbatch {how}, and it began once: {check.ever(lease)}", flush=True)
        ended(check, lease)
        submitted.write_text("")


def killed(check):
    """The broker is killed after a submission, before it hears of it: the job is found, and keeps its place."""
    other = check.run("sbatch", "--parsable", "--gres=gpu:8", "--nodelist=gpu2", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    until("the other job runs", 20, lambda: check.run("squeue", "-h", "-j", other, "-o", "%T").strip() == "RUNNING" or "not yet")
    number = check.folder / "between" / "number"
    for features in ([], ["--features", "nvme"]):
        number.unlink(missing_ok=True)
        mode(check, "kills")
        asked = [check.gpuwise, "lease", "request", "--tenant", "vision", "--format", "json", "--gpu", "1xH200", *features, "--", "sh", "-c", "echo begins; sleep 1000"]
        before = check.leases()
        subprocess.run(asked, env=check.environment, capture_output=True, timeout=60)
        until("the broker is killed", 40, lambda: check.broker.poll() is not None or "not yet")
        mode(check, "")
        job = number.read_text().strip()
        check.begin()
        lease = (check.leases() - before).pop()
        if features:
            until("it waits at Slurm", 20, lambda: check.state(lease).get("queued", {}).get("job") == int(job) or check.state(lease))
            check.run("scancel", other)
        once(check, lease, 2)
        if check.ever(lease).keys() != {job}:
            raise SystemExit(f"{lease} was job {job}: {check.ever(lease)}")
        print(f"{lease}: job {job} {'waits' if features else 'runs'} on while the broker is killed before it hears of it", flush=True)
        ended(check, lease)


def killed_again(check):
    """The broker is killed while leases begin, and again while it begins: each lease begins once, with its first job."""
    leases = set()
    for round in range(6):
        before = check.leases()
        asked = [check.gpuwise, "lease", "request", "--tenant", "vision", "--format", "json", "--gpu", "1xH200", "--", "sh", "-c", "echo begins; sleep 1000"]
        subprocess.run(asked, env=check.environment, capture_output=True, timeout=60, check=True)
        new = check.leases() - before
        time.sleep(0.3 * (round % 3))
        check.broker.send_signal([signal.SIGKILL, signal.SIGTERM][round % 2])
        check.broker.wait()
        # Before orders are told again, or while they are.
        check.spawn()
        time.sleep(0.05 + 0.25 * round)
        check.dies()
        check.begin()
        leases |= new
        for lease in new:
            once(check, lease)
            if len(found := check.ever(lease)) != 1:
                raise SystemExit(f"{lease} has jobs {found}")
    print(f"{', '.join(sorted(leases))}: one job each, whenever the broker was killed", flush=True)
    ended(check, *leases)


def away(check):
    """What ends while no broker runs is charged until it ended, as Slurm knows that; the log is compared with jobs."""
    compared = [*slurm_accounts.as_user(), check.gpuwise, "store", "check", "--executor", "slurm", "--format", "json"]
    lease = check.lease("--gpu", "1xH200", "--", "sh", "-c", "sleep 4; exit 3")
    check.runs(lease)
    check.dies()
    if f"{lease} is" in (said := check.run(*compared, fails=None)):
        raise SystemExit(f"{lease} runs: {said}")
    time.sleep(20)
    if f"{lease} is active by the log, and nothing of it runs" not in (said := check.run(*compared, fails=True)):
        raise SystemExit(f"{lease} ended, and the log says otherwise: {said}")
    check.begin()
    over = check.ends(lease)
    seconds = [datetime.datetime.fromisoformat(over[key].replace("Z", "+00:00")) for key in ("started_at", "since")]
    held = (seconds[1] - seconds[0]).total_seconds()
    if over.get("exit_code") != 3 or not 2 <= held <= 8:
        raise SystemExit(f"it ran for 4 s, and is said to have for {held}: {over}")
    print(f"{lease}: ended while the broker was away for 20 s, and is charged for {held:.1f} s", flush=True)


def suspended(check):
    """A job that Slurm suspends is said to be halted, and costs nothing; a broker that begins anew knows it, too."""
    lease = check.lease("--gpu", "1xH200", "--", "sh", "-c", "echo begins; sleep 1000")
    number = check.runs(lease)[0]
    check.run("scontrol", "suspend", number)
    is_in = lambda state: check.state(lease)["state"] == state or check.state(lease)
    until("it is halted", 20, lambda: is_in("halted"))
    said = check.state(lease)
    if number not in said["reason"]:
        raise SystemExit(f"which job is suspended: {said}")
    time.sleep(2)
    if check.state(lease).get("cost") != said.get("cost"):
        raise SystemExit(f"it is charged while it is suspended: {said} {check.state(lease)}")
    check.dies()
    check.begin()
    until("it is halted still", 20, lambda: is_in("halted"))
    check.dies()
    check.run("scontrol", "resume", number)
    check.begin()
    until("it is active", 20, lambda: is_in("active"))
    check.run("scontrol", "suspend", number)
    until("it is halted again", 20, lambda: is_in("halted"))
    check.run("scontrol", "resume", number)
    until("it is active again", 20, lambda: is_in("active"))
    ended(check, lease)
    print(f"{lease}: halted while Slurm had suspended job {number}", flush=True)


def shared(check):
    """No token lies in the folder that nodes share, and others may not read what lies there."""
    found = [path for path in (check.folder / "shared").rglob("*")]
    if tokens := [path for path in found if "token" in path.name]:
        raise SystemExit(f"tokens lie where all nodes see them: {tokens}")
    own = list((check.folder / "state" / "gpuwise").glob("*.token"))
    if len(own) != 1 or own[0].stat().st_mode & 0o077:
        raise SystemExit(f"the token of the broker: {own}")
    for path in (check.folder / "shared").iterdir():
        if path.stat().st_mode & 0o077:
            raise SystemExit(f"{path} is open to others")
    print(f"{len(found)} files in the shared folder, and the token in {own[0].parent}", flush=True)


def frozen(check):
    """A lease stays with a node that is frozen, until somebody says that this is off."""
    lease = check.lease("--gpu", "8xH200", "--", "sh", "-c", "echo begins; sleep 1000")
    number, _, node, _ = check.runs(lease)
    daemon = subprocess.run(["pgrep", "-f", f"slurmd -D -N {node}$"], capture_output=True, text=True).stdout.split()
    for one in daemon:
        os.kill(int(one), signal.SIGSTOP)
    try:
        until("Slurm takes it for down", 120, lambda: "DOWN" in (said := check.run("sinfo", "-h", "-N", "-n", node, "-O", "StateLong:30").upper()) or said)
        until("the broker suspects it", 40, lambda: check.health(node) == "suspected" or check.health(node))
        time.sleep(12)
        if check.health(node) != "suspected" or begins(check, lease) != 1 or check.state(lease)["gpus"][0]["node"] != node:
            raise SystemExit(f"it left a node that is frozen: {check.state(lease)}")
        check.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fenced")
        until("it begins elsewhere", 90, lambda: begins(check, lease) == 2 or check.state(lease))
        again = check.runs(lease)[2]
        print(f"{lease}: stays with {node} while that is frozen, and goes to {again} when it is said to be fenced", flush=True)
    finally:
        for one in daemon:
            os.kill(int(one), signal.SIGCONT)
    ended(check, lease)
    check.run("scontrol", "update", f"NodeName={node}", "State=RESUME", fails=None)
    until("the node is back", 90, lambda: check.health(node) == "up" or check.health(node))
