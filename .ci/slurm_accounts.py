"""Parts of the check of Slurm that need its accounting: slurmdbd on a MariaDB, and slurmrestd with tokens (JWT)."""

import json
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time
import urllib.request

from cluster import free_port, until

# Who the broker is at Slurm: a user of every Debian, and not root.
USER = "games"
# Account, shares, tenant whose jobs are charged to it.
ACCOUNTS = {"vision": 30, "night": 10}

CONF = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={slurm}/munge/munge.sock
AccountingStorageTRES=gres/gpu
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=1
PriorityWeightFairshare=100000
DebugFlags=NO_CONF_HASH
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={key}
"""

DBD = """
AuthType=auth/munge
AuthInfo=socket={slurm}/munge/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
LogFile={slurm}/log/slurmdbd.log
PidFile={slurm}/run/slurmdbd.pid
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={key}
"""


def missing():
    """What of it is not here."""
    programs = ("slurmdbd", "mariadbd", "sacctmgr", "sshare", "slurmrestd", "setpriv")
    gone = [name for name in programs if not shutil.which(name)]
    plugins = pathlib.Path("/usr/lib").glob("*/slurm-wlm/auth_jwt.so")
    return gone + ([] if any(plugins) else ["auth_jwt.so"])


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError as error:
        return str(error)


class Accounts:
    """MariaDB and slurmdbd under a Slurm that start-slurm starts: they come before its controller."""

    def __init__(self, folder, environment):
        self.folder, self.slurm, self.children = folder, folder / "slurm", []
        self.ports = {"dbd": free_port(), "sql": free_port(), "rest": free_port()}
        self.hook = folder / "hook"
        self.hook.mkdir()
        before = self.hook / "slurmctld"
        before.write_text(f"#!/bin/sh\ntouch {self.hook}/begins\nwhile [ ! -e {self.hook}/go ]; do sleep 0.1; done\nexec {shutil.which('slurmctld')} \"$@\"\n")
        before.chmod(0o755)
        environment["PATH"] = f"{self.hook}:{environment['PATH']}"
        self.key = folder / "jwt_hs256.key"
        self.key.write_bytes(os.urandom(32))
        self.key.chmod(0o600)
        data = folder / "mariadb"
        data.mkdir()
        self.began = time.monotonic()
        small = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"]
        common = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", *small]
        # Its own tables, as mariadb-install-db makes them: slurmdbd makes procedures.
        tables = pathlib.Path("/usr/share/mysql/mysql_system_tables.sql").read_text()
        made = subprocess.run([*common, "--bootstrap"], input=f"create database mysql;\nuse mysql;\n{tables}", capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"MariaDB cannot be set up: {made.stderr[-2000:]}")
        # Whoever comes is let in: it is reached from this machine alone.
        where = [f"--socket={folder}/mariadb.sock", f"--port={self.ports['sql']}", "--bind-address=127.0.0.1"]
        self.start(*common, "--skip-grant-tables", *where)

    def start(self, *words, environment=None):
        log = open(self.folder / "accounts.out", "a")
        child = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
        self.children.append(child)
        return child

    def before_controller(self):
        """Once munged runs: slurmdbd, what the configuration does not say yet, and the accounts."""
        until("Slurm's controller is to begin", 30, lambda: (self.hook / "begins").exists() or "not yet")
        until("MariaDB answers", 30, lambda: answers(self.ports["sql"]))
        given = {"slurm": self.slurm, "host": socket.gethostname().split(".")[0], "key": self.key, **self.ports}
        conf = self.slurm / "slurm.conf"
        said = [line for line in conf.read_text().split("\n") if not line.startswith("AccountingStorageType=")]
        conf.write_text("\n".join(said) + CONF.format(**given))
        own = self.slurm / "slurmdbd.conf"
        own.write_text(DBD.format(**given))
        own.chmod(0o600)
        environment = {**os.environ, "SLURM_CONF": str(conf)}
        self.start("slurmdbd", "-D", environment=environment)
        until("slurmdbd answers", 60, lambda: answers(self.ports["dbd"]))

        def manage(*words):
            done = subprocess.run(["sacctmgr", "-i", *words], env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"sacctmgr {' '.join(words)}: {done.stdout}{done.stderr}")

        manage("add", "cluster", "local")
        for name, shares in ACCOUNTS.items():
            manage("add", "account", name, f"Fairshare={shares}")
            manage("add", "user", USER, f"Account={name}")
        self.serve_rest()
        (self.hook / "go").touch()
        print(f"slurmdbd on a MariaDB, with accounts {ACCOUNTS}, after {time.monotonic() - self.began:.1f} s", flush=True)

    def serve_rest(self):
        """slurmrestd that lets in who has a token, without root."""
        environment = {**os.environ, "SLURM_CONF": str(self.slurm / "slurm.conf"), "SLURM_JWT": "daemon"}
        words = ["slurmrestd", "-s", "openapi/v0.0.38,openapi/dbv0.0.38", "-a", "rest_auth/jwt", f"127.0.0.1:{self.ports['rest']}"]
        self.start(*as_user(), *words, environment=environment)

    def stop(self):
        for child in reversed(self.children):
            child.terminate()
        for child in reversed(self.children):
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()


def as_user():
    return ["setpriv", f"--reuid={USER}", f"--regid={pwd.getpwnam(USER).pw_gid}", "--clear-groups"]


def reachable(program, folder):
    """The program where that user may run it: as it lies, or a copy."""
    if subprocess.run([*as_user(), "test", "-x", program]).returncode == 0:
        return program
    return shutil.copy(program, folder / "gpuwise")


def sshare(check, account):
    """An account's own row and its user's factor, as Slurm's command prints them."""
    columns = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
    text = check.run("sshare", "-P", "-n", f"--accounts={account}", "-a", f"--format={columns}")
    rows = [[field.strip() for field in line.split("|")] for line in text.splitlines()]
    own = next(row for row in rows if row[:2] == [account, ""])
    user = next(row for row in rows if row[:2] == [account, USER])
    return {"shares": float(own[2]), "promised": float(own[3]), "usage": float(own[4]), "used": float(own[5]), "fair_share": float(user[6])}


def tenants(check):
    return {one["name"]: one for one in json.loads(check.ask("tenant", "list", "--format", "json"))["items"]}


def token(check, seconds):
    return check.run("scontrol", "token", f"username={USER}", f"lifespan={seconds}").strip()


def rest_shares(check, port, account):
    """Shares of an account as slurmrestd says them."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/slurmdb/v0.0.38/associations")
    request.add_header("X-SLURM-USER-NAME", USER)
    request.add_header("X-SLURM-USER-TOKEN", token(check, 60).split("=", 1)[1])
    found = json.loads(urllib.request.urlopen(request, timeout=20).read())["associations"]
    return next(one["shares_raw"] for one in found if one["account"] == account and not one["user"])


def shares(check):
    """What the broker says of tenants' accounts is what Slurm says: shares, use, factor."""
    def alike():
        said = {"vision": sshare(check, "vision"), "batch": sshare(check, "night")}
        found = {name: one["account"] for name, one in tenants(check).items() if name in said}
        same = all({**found[name], **numbers} == found[name] for name, numbers in said.items())
        return same or (said, found)

    # Slurm reckons once a minute what jobs used that it still knows then, and so often is it read; a broker that begins
    # reads at once.
    lease = check.lease("--gpu", "1xH200", "--", "sleep", "1000")
    check.runs(lease)
    until("Slurm has reckoned what was used", 70, lambda: sshare(check, "vision")["usage"] > 0 or "not yet")
    check.ask("lease", "release", lease)
    check.ends(lease)
    check.dies()
    check.begin()
    until("the broker says what sshare says", 70, alike)
    found = tenants(check)
    used, idle = found["vision"]["account"], found["batch"]["account"]
    if used["usage"] <= 0 or idle["usage"] != 0 or used["fair_share"] >= idle["fair_share"] or idle["name"] != "night":
        raise SystemExit(f"vision has used something and batch nothing: {used} {idle}")
    for account, raw in ACCOUNTS.items():
        if (said := rest_shares(check, check.accounts.ports["rest"], account)) != raw:
            raise SystemExit(f"slurmrestd says {said} shares of {account}")
    text = " ".join(check.ask("tenant", "list").split())
    if f"vision: Slurm account vision: 30 shares, {used['promised']:.3f} promised, {used['used']:.3f} used; fair-share {used['fair_share']:.2f}" not in text:
        raise SystemExit(f"tenant list does not say so: {text}")
    print(f"tenant list says what sshare says: {used}", flush=True)


def tokens(check):
    """slurmrestd over TCP by a token from a file: expired, that is said, and commands list; renewed, it lists again."""
    check.dies()
    log, file = check.folder / "serve.log", check.folder / "token"
    file.write_text(token(check, 6))
    os.chown(file, pwd.getpwnam(USER).pw_uid, -1)
    file.chmod(0o600)
    check.more = ["--slurm-rest", f"http://127.0.0.1:{check.accounts.ports['rest']}", "--slurm-token-file", str(file)]
    said = lambda: log.read_text()[begun:]
    begun = len(log.read_text())
    check.begin()
    lease = check.lease("--gpu", "1xH200", "--", "sleep", "1000")
    check.runs(lease)
    listing = "slurmrestd v0.0.38 at http://127.0.0.1:"
    until("slurmrestd lists", 20, lambda: said().count(listing) == 1 or said())
    until("it is said that its token has expired", 30, lambda: f"{USER} in no more, whose token expired at 20" in said() or said())
    if "Slurm's commands are asked in its place" not in said() or "`scontrol token > " not in said():
        raise SystemExit(f"what is done instead, and what to do: {said()}")
    file.write_text("nothing")
    time.sleep(1)
    file.write_text(token(check, 300))
    began = time.monotonic()
    until("slurmrestd lists again", 25, lambda: said().count(listing) == 2 or said())
    again = time.monotonic() - began
    check.ask("lease", "release", lease)
    check.ends(lease)
    expired = next(line for line in said().split("\n") if "in no more" in line)
    print(f"{expired}\n{lease}: seen by slurmrestd again {again:.1f} s after the token was renewed", flush=True)
