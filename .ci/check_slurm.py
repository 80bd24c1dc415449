"""A real Slurm runs what a broker leases: `gpuwise serve --executor slurm`.

    python3 .ci/check_slurm.py GPUWISE START_SLURM [COMMAND...]

The command is run at the end with a node of that cluster in GPUWISE_SLURM_NODE.

Three nodes of eight GPUs that are not there, on loopback. What is checked is what Slurm itself says: which jobs run
where, with how many GPUs, under which number; nodes are drained and taken down by `scontrol`. One half of it is done
with jobs and nodes listed by commands, the other with slurmrestd; commands are counted by scripts before them on PATH.
"""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import slurm_accounts
import slurm_acts
import slurm_once
from cluster import broker_answers, free_port, until

SERVICE = """import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


class Check:
    def __init__(self, gpuwise, start, folder):
        self.gpuwise, self.folder = slurm_accounts.reachable(gpuwise, folder), folder
        self.log = open(folder / "start-slurm.log", "w")
        base = free_port([1, 2, 3])
        environment = {**os.environ, "SLURM_BASE_PORT": str(base)}
        self.accounts = None
        if gone := slurm_accounts.missing():
            print(f"SKIPPED: Slurm's accounting, fair-share and tokens: {', '.join(gone)} is not here (Debian: apt-get install slurmdbd mariadb-server-core slurm-wlm-jwt-plugin)", flush=True)
        else:
            self.accounts = slurm_accounts.Accounts(folder, environment)
        self.slurm = subprocess.Popen([start, str(folder / "slurm"), "3", "8"], stdout=self.log, stderr=subprocess.STDOUT, env=environment)
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm" / "slurm.conf"),
            "GPUWISE_OFFLINE": "1",
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.accounts and self.accounts.before_controller()
        until("Slurm is ready", 120, self.is_ready)
        self.broker, self.port, self.beside = None, free_port(), []
        self.more = []
        self.counted = slurm_acts.counted(self.environment, folder / "counted")
        # All that the broker makes is its user's; it needs no root.
        os.chown(folder, pwd.getpwnam(slurm_accounts.USER).pw_uid, -1)
        slurm_once.between(self.environment, folder)

    def is_ready(self):
        text = (self.folder / "start-slurm.log").read_text()
        if self.slurm.poll() is not None:
            raise SystemExit(f"start-slurm ended: {text[-2000:]}")
        return "ready" in text.split("\n") or text[-200:]

    def run(self, *words, fails=False):
        done = subprocess.run(words, capture_output=True, text=True, env=self.environment, timeout=60)
        if fails is not None and (done.returncode != 0) is not fails:
            raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if fails else "")

    def ask(self, *words, **how):
        return self.run(self.gpuwise, *words, **how)

    def jobs(self, state="R"):
        """Jobs of Slurm by their leases: number, name, nodes and GPUs of each."""
        # A controller that waits for a node that does not answer may not answer itself for a moment.
        words = ["squeue", "-h", "-t", state, "-o", "%i %j %N %b"]
        done = subprocess.run(words, capture_output=True, text=True, env=self.environment, timeout=60)
        lines = [line.split() for line in done.stdout.splitlines()]
        return {words[1].partition("-w")[0]: words for words in lines}

    def ever(self, lease):
        """All jobs of a lease that Slurm still knows: number and state of each."""
        text = self.run("squeue", "-h", "--states=all", "-o", "%i %T %j")
        rows = [line.split() for line in text.splitlines()]
        return {number: state for number, state, name in rows if name.partition("-w")[0] == f"gpuwise-{lease}"}

    def spawn(self):
        words = [*slurm_accounts.as_user(), self.gpuwise, "serve", "--executor", "slurm", "--fleet", str(self.folder / "fleet.toml")]
        words += ["--listen", f"127.0.0.1:{self.port}", "--slurm-every", "300ms", "--slurm-patience", "40s", "--preempt"]
        words += ["--slurm-account", "vision", "--slurm-account", "batch=night", "--slurm-state", str(self.folder / "shared"), *self.more]
        errors = open(self.folder / "serve.log", "a")
        self.broker = subprocess.Popen(words, env=self.environment, stdout=errors, stderr=errors)
        self.environment["GPUWISE_URL"] = f"http://127.0.0.1:{self.port}"

    def begin(self):
        self.spawn()
        broker_answers(self.broker, self.port, self.folder / "serve.log")

    def jobs_of(self, lease):
        """Jobs of a lease that run, or will."""
        alive = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED")
        return [number for number, state in self.ever(lease).items() if state in alive]

    def leases(self):
        items = json.loads(self.ask("lease", "list", "--all", "--format", "json"))["items"]
        return {one["id"] for one in items}

    def dies(self):
        self.broker.send_signal(signal.SIGKILL)
        self.broker.wait()

    def lease(self, *words):
        text = self.ask("lease", "request", "--tenant", "vision", "--format", "json", *words)
        return json.loads(text)["id"]

    def state(self, lease):
        return json.loads(self.ask("lease", "show", lease, "--format", "json"))

    def runs(self, lease, seconds=40):
        name = f"gpuwise-{lease}"
        until(f"{lease} runs at Slurm", seconds, lambda: name in self.jobs() or self.run("squeue"))
        until(f"{lease} is active", seconds, lambda: self.state(lease)["state"] == "active" or self.state(lease)["state"])
        return self.jobs()[name]

    def ends(self, lease, seconds=60):
        def over():
            found = self.state(lease)["state"]
            return found in ("ended", "failed") or found

        until(f"{lease} is over", seconds, over)
        return self.state(lease)

    def fleet(self):
        nodes = self.folder / "nodes.json"
        slurm_acts.give_features(self)
        nodes.write_text(self.run("sinfo", "--json"))
        self.ask("fleet", "import", str(nodes), "-o", str(self.folder / "fleet.toml"))
        self.begin()
        self.ask("tenant", "create", "vision")
        self.ask("tenant", "create", "batch")

    def health(self, name):
        """How the broker takes a node to be."""
        token = self.folder / "state" / "gpuwise" / f"127.0.0.1_{self.port}.token"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/fleet")
        request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
        fleet = json.loads(urllib.request.urlopen(request, timeout=10).read())
        return next(node["health"] for node in fleet["nodes"] if node["name"] == name)

    def places(self):
        """A job, its GPUs, its output and its end."""
        lease = self.lease("--gpu", "2xH200", "--", "sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES; exit 3")
        over = self.ends(lease)
        output = self.ask("lease", "logs", lease)
        count = output.split("sees ")[1].split()[0].count(",") + 1 if "sees " in output else 0
        if count != 2 or over.get("exit_code") != 3:
            raise SystemExit(f"2 GPUs and exit code 3: {output!r} {over}")
        print(f"{lease}: 2 GPUs of Slurm's choice, exit code 3 comes back", flush=True)

    def gang(self):
        """Two whole nodes, one command on each."""
        lease = self.lease("--gpu", "8xH200", "--workers", "2", "--", "sh", "-c", "echo rank $SLURM_PROCID; sleep 1000")
        number, _, nodes, gpus = self.runs(lease)
        if not gpus.endswith("8") or "," not in nodes and "-" not in nodes:
            raise SystemExit(f"16 GPUs on two nodes: {nodes} {gpus}")
        until("both ranks say so", 30, lambda: all(f"rank {one}" in self.ask("lease", "logs", lease) for one in (0, 1)) or "not yet")
        print(f"{lease}: job {number} on {nodes} with {gpus} on each, a rank on each", flush=True)
        return lease, number

    def restart(self, lease, number):
        self.dies()
        slurm_acts.by_rest(self)
        self.begin()
        if self.runs(lease)[0] != number:
            raise SystemExit("a broker that began again started it anew")
        print(f"{lease}: job {number} runs on while the broker is killed and begins again", flush=True)
        self.ask("lease", "release", lease)
        self.ends(lease)
        until("its GPUs are free", 60, lambda: not self.jobs() or self.jobs())

    def preempts(self):
        """Who may be stopped is requeued and held, and goes on elsewhere under its number."""
        low = self.lease("--gpu", "8xH200", "--preemptible", "--", "sh", "-c", "echo begins; sleep 1000")
        number, _, node, _ = self.runs(low)
        others = [self.lease("--gpu", "8xH200", "--priority", "100", "--", "sleep", "1000") for _ in range(3)]
        for other in others:
            self.runs(other, 120)
        held = self.run("squeue", "-h", "-j", number, "-o", "%T %r")
        if not held.startswith("PENDING"):
            raise SystemExit(f"{low} is not held: {held}")
        self.ask("lease", "release", others[0])
        again = self.runs(low, 120)
        if again[0] != number:
            raise SystemExit(f"{low} was job {number} and is {again[0]}")
        print(f"{low}: job {number} on {node}, requeued and held for three others, then on {again[2]} under its number", flush=True)
        for lease in [low, *others[1:]]:
            self.ask("lease", "release", lease)
            self.ends(lease)

    def nodes(self):
        """A node that is drained takes nothing; who was on one that goes down starts again."""
        self.run("scontrol", "update", "NodeName=gpu1", "State=DRAIN", "Reason=check")
        until("the broker knows", 40, lambda: self.health("gpu1") == "draining" or self.health("gpu1"))
        first = self.lease("--gpu", "8xH200", "--", "sh", "-c", "echo begins; sleep 1000")
        number, _, node, _ = self.runs(first)
        if node == "gpu1":
            raise SystemExit("it started on a node that is drained")
        self.run("scontrol", "update", "NodeName=gpu1", "State=RESUME")
        begins = lambda: self.ask("lease", "logs", first).count("begins")
        until("it has begun", 30, lambda: begins() == 1 or begins())
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=check")
        # Its daemon answers, and so it is soon taken for well again; until then its job is not there.
        until("it has begun again", 120, lambda: begins() == 2 or begins())
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", fails=None)
        again = self.runs(first)
        print(f"{first}: on {node} beside a drained node; that is taken down, and it runs again on {again[2]}", flush=True)
        self.ask("lease", "release", first)
        self.ends(first)
        until("the broker takes all nodes", 60, lambda: all(self.health(f"gpu{one}") == "up" for one in (1, 2, 3)) or "not yet")
        back = [self.lease("--gpu", "8xH200", "--", "sleep", "1000") for _ in range(3)]
        for lease in back:
            self.runs(lease, 60)
        for lease in back:
            self.ask("lease", "release", lease)
            self.ends(lease)
        print("all three nodes are used again", flush=True)

    def service(self):
        """A service answers where Slurm started it."""
        program = self.folder / "service.py"
        program.write_text(SERVICE)
        lease = self.lease("--gpu", "1xH200", "--serve", "tiny", "--health", "/", "--", "/usr/bin/python3", str(program), "{port}")
        try:
            self.runs(lease)
        except SystemExit:
            print(self.ask("lease", "logs", lease, fails=None), flush=True)
            raise
        address = f"http://127.0.0.1:{self.port}/v1/models"
        token = self.ask("token", "create", "client", "--tenant", "vision", "--format", "json", "--role", "member")
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {json.loads(token)['token']}"})
        models = urllib.request.urlopen(request, timeout=10).read().decode()
        if "tiny" not in models:
            raise SystemExit(f"the gateway does not know it: {models}")
        print(f"{lease}: a service is ready and known to the gateway", flush=True)
        self.ask("lease", "release", lease)
        self.ends(lease)

    def stop(self):
        if self.broker:
            self.broker.terminate()
        for process in self.beside:
            process.terminate()
        self.accounts and self.accounts.stop()
        self.slurm.send_signal(signal.SIGTERM)
        try:
            self.slurm.wait(30)
        except subprocess.TimeoutExpired:
            self.slurm.kill()


def timed(name, part):
    began = time.monotonic()
    part()
    print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)


def main(gpuwise, start, command, folder):
    check = Check(gpuwise, start, folder)
    try:
        check.fleet()
        timed("service", check.service)
        timed("places", check.places)
        timed("features", lambda: slurm_acts.features(check))
        timed("queued", lambda: slurm_acts.queued(check))
        timed("gang, restart", lambda: check.restart(*check.gang()))
        timed("preempts", check.preempts)
        timed("nodes", check.nodes)
        timed("features by slurmrestd", lambda: slurm_acts.features(check))
        timed("slurmrestd", lambda: slurm_acts.rest(check))
        if check.accounts:
            timed("tokens", lambda: slurm_accounts.tokens(check))
            timed("shares", lambda: slurm_accounts.shares(check))
        timed("submitted in silence", lambda: slurm_once.silent(check))
        timed("killed after a submission", lambda: slurm_once.killed(check))
        timed("killed again and again", lambda: slurm_once.killed_again(check))
        timed("ended while away", lambda: slurm_once.away(check))
        timed("suspended", lambda: slurm_once.suspended(check))
        timed("what lies in the shared folder", lambda: slurm_once.shared(check))
        timed("frozen node", lambda: slurm_once.frozen(check))
        if command:
            given = {**os.environ, "SLURM_CONF": check.environment["SLURM_CONF"], "GPUWISE_SLURM_NODE": "gpu2"}
            subprocess.run(command, env=given, check=True, timeout=600)
    except BaseException:
        for log in ["serve.log", "start-slurm.log", "slurm/log/slurmctld.log"]:
            text = (folder / log).read_text(errors="replace")[-2000:] if (folder / log).exists() else "is not there"
            print(f"{log}:\n{text}", flush=True)
        raise
    finally:
        check.stop()


if __name__ == "__main__":
    given = [shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2], sys.argv[3:]]
    with tempfile.TemporaryDirectory(prefix="gpuwise-slurm-") as made:
        # slurmrestd runs as nobody: where it cannot read slurm.conf it ends after a minute, and start-slurm with it.
        os.chmod(made, 0o755)
        main(*given, pathlib.Path(made))
