"""A real Redfish service composes the hosts of a broker: `gpuwise serve --compose redfish=URL`.

    START_REDFISH's python .ci/check_redfish.py GPUWISE START_REDFISH

The service is the DMTF's emulator with a pool of GPUs, and what it has composed is read by the DMTF's Python client,
which shares no code with ours: which systems there are, which blocks each has, in which state every block is.
"""

import base64
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import redfish

from cluster import broker_answers, free_port, until

POLICY = """
name = "composed"
[upkeep]
detach_after = "2s"
"""

MODELS = [
    ("8B", "meta-llama/Llama-3.1-8B"),
    ("70B", "meta-llama/Llama-3.1-70B"),
    ("405B", "meta-llama/Llama-3.1-405B"),
]
TRAFFIC = ["--rate", "2", "--isl", "2000", "--osl", "300", "--ttft", "p95:2s", "--tpot", "p95:60ms"]


class Service:
    """The emulator, and what the DMTF's client sees in it."""

    def __init__(self, start, folder, hosts, gpus, zones=1, delay=0):
        self.folder = folder
        self.log = open(folder / "redfish.log", "w")
        environment = {**os.environ, "REDFISH_ZONES": str(zones), "REDFISH_DELAY": str(delay)}
        words = [start, str(folder / "redfish"), str(hosts), str(gpus)]
        self.child = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT, env=environment)
        until("the Redfish service is ready", 180, self.is_ready)
        text = (folder / "redfish" / "env").read_text()
        self.url = text.strip().split("=", 1)[1].removesuffix("/redfish/v1")
        self.client = redfish.redfish_client(base_url=self.url, default_prefix="/redfish/v1/", timeout=60, max_retry=1)

    def is_ready(self):
        text = (self.folder / "redfish.log").read_text()
        if self.child.poll() is not None:
            raise SystemExit(f"start-redfish ended: {text}")
        return "ready" in text or text

    def get(self, path):
        answer = self.client.get(path)
        if answer.status != 200:
            raise SystemExit(f"GET {path}: {answer.status} {answer.text}")
        return answer.dict

    def systems(self):
        """GPU blocks of each system, and its host's block."""
        found = {}
        for member in self.get("/redfish/v1/Systems")["Members"]:
            answer = self.client.get(member["@odata.id"])
            if answer.status == 404:
                continue
            blocks = [one["@odata.id"].rsplit("/", 1)[1] for one in answer.dict["Links"]["ResourceBlocks"]]
            name = answer.dict["Name"]
            if name in found:
                raise SystemExit(f"two systems are called {name}")
            found[name] = sorted(block for block in blocks if block.startswith("GPU-"))
        return found

    def states(self):
        paths = self.get("/redfish/v1/CompositionService/ResourceBlocks")["Members"]
        blocks = [self.get(one["@odata.id"]) for one in paths]
        return {one["Id"]: one["CompositionStatus"]["CompositionState"] for one in blocks}

    def zones(self):
        paths = self.get("/redfish/v1/CompositionService/ResourceZones")["Members"]
        found = [self.get(one["@odata.id"]) for one in paths]
        return {one["Id"]: sorted(block["@odata.id"].rsplit("/", 1)[1] for block in one["Links"]["ResourceBlocks"]) for one in found}

    def all_free(self):
        states = self.states()
        return set(states.values()) == {"Unused"} or {block: state for block, state in states.items() if state != "Unused"}

    def compose(self, name, blocks):
        paths = [{"@odata.id": f"/redfish/v1/CompositionService/ResourceBlocks/{block}"} for block in blocks]
        answer = self.client.post("/redfish/v1/Systems", body={"Name": name, "Links": {"ResourceBlocks": paths}})
        if answer.status != 201:
            raise SystemExit(f"{name} is not composed: {answer.status} {answer.text}")

    def decompose(self, name):
        answer = self.client.delete(f"/redfish/v1/Systems/{name}")
        if answer.status != 204:
            raise SystemExit(f"{name} is not taken apart: {answer.status} {answer.text}")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(30)


class Broker:
    """`gpuwise serve` on a fleet that was read from a service."""

    def __init__(self, gpuwise, folder, service, every="1s"):
        self.gpuwise, self.folder, self.service, self.every = gpuwise, folder, service, every
        self.port, self.process = free_port(), None
        folders = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "DATA", "CONFIG")}
        self.environment = {**os.environ, "GPUWISE_OFFLINE": "1", "HOME": str(folder), **folders, "GPUWISE_URL": f"http://127.0.0.1:{self.port}"}
        (folder / "policy.toml").write_text(POLICY)
        self.fleet_file = folder / "fleet.toml"
        self.ask("fleet", "import", "--redfish", service.url, "-o", str(self.fleet_file))
        self.ask("fleet", "check", str(self.fleet_file))

    def ask(self, *words, fails=False):
        done = subprocess.run([self.gpuwise, *words], capture_output=True, text=True, env=self.environment, timeout=120)
        if (done.returncode != 0) is not fails:
            raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if fails else "")

    def begin(self, store="broker.db"):
        words = [self.gpuwise, "serve", "--fleet", str(self.fleet_file), "--store", f"sqlite://{self.folder / store}"]
        words += ["--listen", f"127.0.0.1:{self.port}", "--compose", f"redfish={self.service.url}", "--compose-every", self.every]
        words += ["--policy", str(self.folder / "policy.toml"), "--start-takes", "1s"]
        errors = open(self.folder / "serve.log", "a")
        self.process = subprocess.Popen(words, env=self.environment, stdout=errors, stderr=errors)
        broker_answers(self.process, self.port, self.folder / "serve.log")

    def dies(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def lease(self, *words):
        return json.loads(self.ask("lease", "request", "--tenant", "lab", "--format", "json", *words))["id"]

    def show(self, lease):
        return json.loads(self.ask("lease", "show", lease, "--format", "json"))

    def is_active(self, lease, seconds=60):
        def state():
            seen = self.show(lease)
            return seen["state"] == "active" or (seen["state"], seen.get("reason"))

        until(f"{lease} is active", seconds, state)
        return self.show(lease)

    def release(self, lease):
        self.ask("lease", "release", lease)
        until(f"{lease} ends", 60, lambda: self.show(lease)["state"] == "ended" or self.show(lease)["state"])

    def fleet(self):
        token = self.folder / "state" / "gpuwise" / f"127.0.0.1_{self.port}.token"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/fleet")
        request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
        return json.loads(urllib.request.urlopen(request, timeout=10).read())

    def attached(self):
        """GPU blocks of each node, as the broker believes."""
        nodes = {node["name"]: sorted(gpu["uid"].split("/")[1] for gpu in node["gpus"]) for node in self.fleet()["nodes"]}
        return {name: gpus for name, gpus in nodes.items() if gpus}

    def agrees(self):
        """What it believes is what the service has, and no GPU is missing."""
        fleet = self.fleet()
        believed, systems = self.attached(), self.service.systems()
        free = sum(len(pool["gpus"]) for pool in fleet["pools"])
        whole = free + sum(map(len, believed.values())) == sum(pool["size"] for pool in fleet["pools"])
        return believed == systems and whole or (believed, systems, free)

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(60)


def imports(broker, service):
    """The fleet file has the zones' hosts and GPUs, as the other client sees them."""
    text = broker.fleet_file.read_text()
    for zone, blocks in service.zones().items():
        table = text.split(f'[[pool]]\nname = "{zone}"')[1].split("[[")[0]
        gpus = json.loads(next(line for line in table.splitlines() if line.startswith("resource_blocks")).split("= ")[1])
        if sorted(gpus) != [block for block in blocks if block.startswith("GPU-")]:
            raise SystemExit(f"{zone} has {blocks}, and the file says {gpus}")
        for host in (block for block in blocks if block.startswith("Compute-")):
            own = text.split(f'name = "{host}"')[1].split("[[")[0]
            if f'pools = ["{zone}"]' not in own or "cpu = 96" not in own or 'memory = "1048576MiB"' not in own:
                raise SystemExit(f"{host} is in {zone}, has 96 cores and 1 TiB: {own}")
    print(f"fleet import: {len(service.zones())} zones, hosts and GPUs as the DMTF's client sees them", flush=True)


class Front(http.server.BaseHTTPRequestHandler):
    """Stands before the emulator, which has neither TLS nor users."""

    behind, sessions, asked = None, set(), []

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        Front.asked.append(self.command)
        if self.path.endswith("/SessionService/Sessions") and self.command == "POST":
            given = json.loads(body)
            if given != {"UserName": "ann", "Password": "pa:ss"}:
                return self.say(401, b"{}")
            Front.sessions.add("token-1")
            return self.say(201, b"{}", {"X-Auth-Token": "token-1", "Location": f"{self.path}/1"})
        basic = "Basic " + base64.b64encode(b"ann:pa:ss").decode()
        if self.headers.get("X-Auth-Token") not in Front.sessions and self.headers.get("Authorization") != basic and self.path != "/redfish/v1/":
            return self.say(401, b"{}")
        if "/Sessions/" in self.path and self.command == "DELETE":
            Front.sessions.clear()
            return self.say(204, b"")
        request = urllib.request.Request(Front.behind + self.path, data=body or None, method=self.command)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as there:
            return self.say(there.status, there.read())

    def say(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def lets_in(broker, service):
    """TLS of an authority of one's own, a password with each request, or a session that is ended."""
    key, certificate = broker.folder / "key.pem", broker.folder / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*words, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    Front.behind = service.url
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_port}"
    right, wrong = broker.folder / "right.txt", broker.folder / "wrong.txt"
    right.write_text("ann:pa:ss\n")
    wrong.write_text("ann:other\n")
    words = ["fleet", "import", "--redfish", url]
    trust = ["--redfish-ca-file", str(certificate)]
    if "certificate" not in broker.ask(*words, "--redfish-user-file", str(right), fails=True).lower():
        raise SystemExit("an authority that nobody trusts is named as the reason")
    for more in ([], ["--redfish-user-file", str(wrong)], ["--redfish-user-file", str(wrong), "--redfish-session"]):
        if "does not let us in" not in broker.ask(*words, *trust, *more, fails=True):
            raise SystemExit(f"{more}: it does not let us in")
    plain = broker.fleet_file.read_text()
    for more in ([], ["--redfish-session"]):
        if broker.ask(*words, *trust, "--redfish-user-file", str(right), *more) != plain:
            raise SystemExit(f"{more}: the same fleet as without TLS")
    if Front.sessions or "DELETE" not in Front.asked:
        raise SystemExit("the session was not ended")
    server.shutdown()
    print("TLS of an authority of one's own; user and password with each request, and for a session, which is ended", flush=True)


def attaches(broker, service):
    """What is leased is composed, exactly; what is given back is free."""
    first = broker.lease("--gpu", "3xH200")
    held = broker.is_active(first)
    systems = service.systems()
    if [len(gpus) for gpus in systems.values()] != [3] or held["gpus"][0]["node"] not in systems:
        raise SystemExit(f"three GPUs at one host: {systems} {held['gpus']}")
    # A host on which somebody runs is not taken apart for another.
    second = broker.lease("--gpu", "1xH200")
    broker.is_active(second)
    systems = service.systems()
    if sorted(map(len, systems.values())) != [1, 3]:
        raise SystemExit(f"a host of its own for the second: {systems}")
    until("both sides agree", 20, broker.agrees)
    for lease in (first, second):
        broker.release(lease)
    until("all blocks are free again", 30, service.all_free)
    print(f"{first}, {second}: composed of 3 GPUs and of 1, each on its own host; free again after they ended", flush=True)


def refuses(broker, service):
    """Who takes a GPU by another way has it; it is not offered, and is back when he gives it back."""
    service.compose("theirs", ["Compute-1", "GPU-1"])

    def health():
        gpus = [gpu for pool in broker.fleet()["pools"] for gpu in pool["gpus"]]
        return next((gpu["health"] for gpu in gpus if gpu["uid"] == "ResourceBlocks/GPU-1"), "is not in its pool")

    until("the GPU is not offered", 20, lambda: health() == "maintenance" or health())
    service.decompose("theirs")
    until("it is offered again", 20, lambda: health() == "up" or health())
    # Between two looks: all hosts and GPUs of a zone but one each are taken as it is asked for.
    lease = broker.lease("--gpu", "1xH200")
    broker.is_active(lease)
    (name,) = service.systems()
    service.decompose(name)
    until("it is composed anew", 60, lambda: len(service.systems()) == 1 and broker.agrees() is True or (service.systems(), broker.agrees()))
    broker.is_active(lease)
    broker.release(lease)
    until("all blocks are free again", 30, service.all_free)
    print("a GPU that somebody else composes is not offered; a host that is taken apart under a lease is composed anew", flush=True)


def races(broker, service):
    """Host and GPUs that would be first are taken, and the broker does not look: it finds out as it is refused."""
    until("both sides agree", 20, broker.agrees)
    service.compose("theirs", ["Compute-1", "GPU-1", "GPU-2"])
    lease = broker.lease("--gpu", "2xH200")
    broker.is_active(lease)
    systems = service.systems()
    if systems["theirs"] != ["GPU-1", "GPU-2"]:
        raise SystemExit(f"what is theirs stays theirs: {systems}")
    (own,) = (gpus for name, gpus in systems.items() if name != "theirs")
    if len(own) != 2 or set(own) & {"GPU-1", "GPU-2"}:
        raise SystemExit(f"two other GPUs: {systems}")
    nodes = {node["name"]: node["health"] for node in broker.fleet()["nodes"]}
    if nodes["Compute-1"] != "draining":
        raise SystemExit(f"a host that somebody else has takes nothing: {nodes}")
    broker.release(lease)
    print("host and GPUs that were taken between two looks: refused, known, and others composed", flush=True)


def survives(broker, service):
    """Killed in the middle of composing and of taking apart; then without its log."""
    for wait in (0.5, 1.0, 2.0):
        lease = broker.lease("--gpu", "2xH200")
        time.sleep(wait)
        broker.dies()
        broker.begin()
        broker.is_active(lease)
        systems = service.systems()
        if [len(gpus) for gpus in systems.values()] != [2]:
            raise SystemExit(f"killed after {wait} s: {systems}")
        broker.release(lease)
        time.sleep(2 + wait)
        broker.dies()
        broker.begin()
        until("all blocks are free again", 40, service.all_free)
        until("both sides agree", 20, broker.agrees)
    pools = broker.fleet()["pools"]
    attach = {pool["name"]: round(pool["attach_seconds"], 2) for pool in pools}
    if not any(1.4 < seconds < 9 for seconds in attach.values()):
        raise SystemExit(f"composing takes 1.5 s, and was learned as {attach}")
    print(f"killed while composing and while taking apart, three times each: nothing lost, nothing doubled; attaching takes, as seen, {attach} s", flush=True)
    lease = broker.lease("--gpu", "2xH200")
    broker.is_active(lease)
    broker.dies()
    broker.begin("another.db")
    until("what nobody knows of is given back", 60, service.all_free)
    until("both sides agree", 20, broker.agrees)
    print("a broker whose log is gone finds what is composed, and gives it back", flush=True)


def scenario(broker, service):
    """An 8B, a 70B and a 405B model arrive on 32 GPUs and 8 hosts, and go."""
    leases, sizes = [], {}
    begun = time.monotonic()
    for name, model in MODELS:
        text = broker.ask("plan", model, *TRAFFIC, "--gpu", "H200", "--format", "json")
        best = json.loads(text)["deployments"][0]
        sizes[name] = best["gpu_count"]
        lease = broker.lease("--model", model, *TRAFFIC, "--gpu", "H200")
        held = broker.is_active(lease, 120)
        leases.append(lease)
        gpus = len(held["gpus"])
        hosts = {one["node"] for one in held["gpus"]}
        composed = {host: len(service.systems()[host]) for host in hosts}
        if not gpus == sizes[name] == sum(composed.values()):
            raise SystemExit(f"{name}: plan says {sizes[name]}, leased are {gpus}, composed {composed}")
        print(f"{name}: plan says {sizes[name]} GPUs; composed: {', '.join(f'{host} with {count}' for host, count in sorted(composed.items()))}", flush=True)
    took = time.monotonic() - begun
    free = list(service.states().items())
    free = sum(1 for block, state in free if block.startswith("GPU-") and state == "Unused")
    used, whole = sum(sizes.values()), sum(8 * -(-count // 8) for count in sizes.values())
    if free != 32 - used:
        raise SystemExit(f"{free} GPUs are free, {32 - used} should be")
    for lease in leases:
        broker.release(lease)
    until("all blocks are free again", 60, service.all_free)
    share = 100 * (whole - used) / whole
    print(f"all three: {used} of 32 GPUs, {free} free for others; a host of 8 for each takes {whole}: {share:.0f} % fewer GPU-hours; {took:.0f} s from the first plan to the last start; all given back", flush=True)


def main(gpuwise, start, folder):
    parts = [
        ({"hosts": 4, "gpus": 16, "zones": 2}, [imports, lets_in, attaches, refuses]),
        ({"hosts": 3, "gpus": 6}, [races], "1h"),
        ({"hosts": 2, "gpus": 8, "delay": 1.5}, [survives]),
        ({"hosts": 8, "gpus": 32, "delay": 1.5}, [scenario]),
    ]
    for number, (pool, checks, *every) in enumerate(parts):
        own = folder / str(number)
        own.mkdir()
        service = Service(start, own, **pool)
        broker = None
        try:
            broker = Broker(gpuwise, own, service, *every)
            broker.begin()
            broker.ask("tenant", "create", "lab")
            for check in checks:
                check(broker, service)
        except BaseException:
            for log in ["serve.log", "redfish.log", "redfish/emulator.log"]:
                text = (own / log).read_text(errors="replace")[-3000:] if (own / log).exists() else "is not there"
                print(f"{log}:\n{text}", flush=True)
            raise
        finally:
            if broker:
                broker.stop()
            service.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="gpuwise-redfish-") as made:
        main(shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2], pathlib.Path(made))
