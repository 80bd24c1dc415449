"""A real Envoy asks `gpuwise epp` where each request goes.

    python3 .ci/check_epp.py GPUWISE ENVOY

Engines are `gpuwise engine`; who served a request is counted at their own pages, never at the picker's. Envoy has
a listener for each way in which it can show bodies, one whose pool is limited by metadata, and one that picks its
endpoint by metadata (override_host) where the others go by the header (original destination).
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benches"))
from broker import Broker
from cluster import free_port, until
from engine_events import Engine

TYPE = "type.googleapis.com/envoy.extensions"
HEADER = "x-gateway-destination-endpoint"


def processing(mode, picker):
    """How the filter shows a request to a picker, and passes metadata on."""
    bodies = {"NONE": ("NONE", "SKIP"), "BUFFERED": ("BUFFERED", "SKIP")}
    body, trailers = bodies.get(mode, ("FULL_DUPLEX_STREAMED", "SEND"))
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{TYPE}.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": picker}, "timeout": "60s"},
            "processing_mode": {
                "request_header_mode": "SEND",
                "response_header_mode": "SEND",
                "request_body_mode": body,
                "response_body_mode": body if body != "BUFFERED" else "NONE",
                "request_trailer_mode": trailers,
                "response_trailer_mode": trailers,
            },
            "message_timeout": "60s",
            "metadata_options": {
                "forwarding_namespaces": {"untyped": ["envoy.lb.subset_hint", "envoy.lb"]},
                "receiving_namespaces": {"untyped": ["envoy.lb"]},
            },
        },
    }


def listener(name, port, mode, cluster, only=None, picker="picker"):
    filters = []
    if only is not None:
        filters.append({
            "name": "envoy.filters.http.set_metadata",
            "typed_config": {
                "@type": f"{TYPE}.filters.http.set_metadata.v3.Config",
                "metadata": [{"metadata_namespace": "envoy.lb.subset_hint", "allow_overwrite": True, "value": {HEADER + "-subset": only}}],
            },
        })
    filters.append(processing(mode, picker))
    filters.append({"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPE}.filters.http.router.v3.Router"}})
    route = {"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}}
    manager = {
        "@type": f"{TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    }
    return {
        "name": name,
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }


def at(port):
    return {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}


def config(picker, daemon, engines, ports):
    http2 = {f"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": f"{TYPE}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }}
    override = {
        "@type": f"{TYPE}.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"metadata": {"key": "envoy.lb", "path": [{"key": HEADER}]}}],
        "fallback_policy": {"policies": [{"typed_extension_config": {
            "name": "random",
            "typed_config": {"@type": f"{TYPE}.load_balancing_policies.random.v3.Random"},
        }}]},
    }
    clusters = [
        {"name": "picker", "type": "STATIC", "connect_timeout": "1s", "typed_extension_protocol_options": http2,
         "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [at(picker)]}]}},
        {"name": "daemon", "type": "STATIC", "connect_timeout": "1s", "typed_extension_protocol_options": http2,
         "load_assignment": {"cluster_name": "daemon", "endpoints": [{"lb_endpoints": [at(daemon)]}]}},
        {"name": "by_header", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "1s",
         "original_dst_lb_config": {"use_http_header": True, "http_header_name": HEADER}},
        {"name": "by_metadata", "type": "STATIC", "connect_timeout": "1s",
         "load_assignment": {"cluster_name": "by_metadata", "endpoints": [{"lb_endpoints": [at(port) for port in engines]}]},
         "load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "override", "typed_config": override}}]}},
    ]
    second = f"127.0.0.1:{engines[1]}"
    listeners = [
        listener("duplex", ports["duplex"], "DUPLEX", "by_header"),
        listener("buffered", ports["buffered"], "BUFFERED", "by_header"),
        listener("none", ports["none"], "NONE", "by_header"),
        listener("metadata", ports["metadata"], "DUPLEX", "by_metadata"),
        listener("limited", ports["limited"], "DUPLEX", "by_header", only=[second]),
        listener("services", ports["services"], "DUPLEX", "by_header", picker="daemon"),
        listener("nobody", ports["nobody"], "DUPLEX", "by_header", only=["127.0.0.1:1"]),
    ]
    return {"static_resources": {"listeners": listeners, "clusters": clusters}}


def ask(port, prompt, stream=False, tokens=3, **headers):
    """The answer's status, its body, and seconds to its first and last piece."""
    return answered(port, prompt, stream, tokens, **headers)[:4]


def answered(port, prompt, stream=False, tokens=3, **headers):
    """The same, and why a picker dropped it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "stream": stream}
    began = time.monotonic()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json", **headers})
    answer = connection.getresponse()
    first, text = None, b""
    while piece := answer.read1(65536):
        first = first or time.monotonic() - began
        text += piece
    connection.close()
    dropped = answer.headers.get("x-llm-d-request-dropped-reason")
    return answer.status, text.decode(), first, time.monotonic() - began, dropped


class Check:
    def __init__(self, gpuwise, envoy, folder):
        self.gpuwise, self.envoy, self.folder = gpuwise, envoy, folder
        self.processes, self.logs = [], 0
        self.engines = [free_port() for _ in range(3)]
        self.running = {port: self.engine(port) for port in self.engines}
        self.picker, self.figures = free_port(), free_port()
        self.ports = {name: free_port() for name in ["duplex", "buffered", "none", "metadata", "limited", "nobody", "services"]}
        self.daemon = free_port()

    def start(self, *words):
        self.logs += 1
        log = open(self.folder / f"log-{self.logs}", "w")
        process = subprocess.Popen(words, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def engine(self, port):
        # One answer at a time is enough to see a queue.
        words = ["engine", "--listen", f"127.0.0.1:{port}", "--model", "m", "--ttft", "5ms", "--tpot", "20ms", "--concurrency", "8"]
        return self.start(self.gpuwise, *words)

    def pick(self, *more, engines=None):
        all = ",".join(f"127.0.0.1:{port}" for port in engines or self.engines)
        words = ["epp", "--listen", f"127.0.0.1:{self.picker}", "--endpoints", all, "--every", "100ms", "--seed", "1"]
        process = self.start(self.gpuwise, *words, "--metrics", f"127.0.0.1:{self.figures}", *more)
        until("the picker answers", 30, lambda: "gpuwise_epp" in self.page(self.figures) or "nothing")
        return process

    @staticmethod
    def page(port):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        except OSError as error:
            return str(error)

    def served(self):
        """Requests that each engine says it has answered."""
        counts = []
        for port in self.engines:
            found = re.findall(r"^vllm:request_success_total\S* (\S+)", self.page(port), re.M)
            counts.append(int(sum(float(one) for one in found)))
        return counts

    def who(self, listener, prompt):
        """Which engine serves a prompt."""
        before = self.served()
        status, text, _, _ = ask(self.ports[listener], prompt)
        if status != 200:
            raise SystemExit(f"{listener}: {status} {text}")
        until("an engine counts it", 5, lambda: sum(self.served()) > sum(before) or self.served())
        changed = [at for at, (old, new) in enumerate(zip(before, self.served())) if new != old]
        if len(changed) != 1:
            raise SystemExit(f"one request was served by engines {changed}")
        return changed[0]

    def run(self):
        (self.folder / "envoy.json").write_text(json.dumps(config(self.picker, self.daemon, self.engines, self.ports)))
        picker = self.pick()
        self.start(self.envoy, "-c", str(self.folder / "envoy.json"), "--log-level", "warning", "--concurrency", "2", "--use-dynamic-base-id")

        def well():
            try:
                return ask(self.ports["duplex"], "hi")[0] == 200 or "not 200"
            except OSError as error:
                return str(error)

        until("Envoy answers", 60, well)
        self.prefixes()
        self.bodies()
        self.limits()
        self.spread()
        self.losses()
        picker = self.full(picker)
        picker = self.objectives(picker)
        self.events(picker)
        self.services()

    def prefixes(self):
        """Conversations stay where they began, whichever way bodies are shown; others spread."""
        for listener in ["duplex", "buffered", "metadata"]:
            homes = []
            for number in range(9):
                talk = f"{listener} conversation {number}: " + "tell me more about it. " * 40
                home = self.who(listener, talk)
                homes.append(home)
                for turn in ["and then?", "why?"]:
                    talk += turn
                    if self.who(listener, talk) != home:
                        raise SystemExit(f"{listener}: a conversation of engine {home} went elsewhere")
            if len(set(homes)) < 3:
                raise SystemExit(f"{listener}: conversations went to engines {homes} alone")
            print(f"{listener}: 9 conversations of 3 turns stay with their engines {homes}", flush=True)
        self.who("none", "without a body")

    def bodies(self):
        """What is long passes whole, and what is streamed passes as it comes."""
        long = "word " * 400_000
        direct = json.loads(ask(self.engines[0], long)[1])["usage"]["prompt_tokens"]
        for listener in ["duplex", "metadata"]:
            status, text, _, _ = ask(self.ports[listener], long)
            through = json.loads(text)["usage"]["prompt_tokens"] if status == 200 else text
            if through != direct:
                raise SystemExit(f"{listener}: a body of 2 MB came as {through} tokens of {direct}")
        status, text, first, last = ask(self.ports["duplex"], "stream", stream=True, tokens=40)
        if status != 200 or "[DONE]" not in text or first > last / 2:
            raise SystemExit(f"a stream of 40 tokens: {status}, first piece after {first:.2f} of {last:.2f} s")
        print(f"2 MB pass whole ({direct} tokens); a stream's first piece after {first:.2f} s of {last:.2f} s", flush=True)

    def limits(self):
        """A gateway that allows one endpoint gets that one; where it allows none of the pool, 503 and why."""
        if {self.who("limited", f"limited {number}") for number in range(4)} != {1}:
            raise SystemExit("a subset was not kept to")
        status, text, _, _ = ask(self.ports["nobody"], "nobody")
        if status != 503 or "that the gateway allows" not in json.loads(text)["error"]["message"]:
            raise SystemExit(f"a subset of nobody: {status} {text}")
        print(f"a subset is kept to; none of it in the pool: {status} {text}", flush=True)

    def spread(self):
        """Many at once go to all engines, and none is forgotten."""
        before = self.served()
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda number: ask(self.ports["duplex"], f"{number} alone")[0], range(600)))
        took = time.monotonic() - began
        if set(answers) != {200}:
            raise SystemExit(f"600 requests: {[one for one in answers if one != 200]}")
        counts = [new - old for old, new in zip(before, self.served())]
        if sum(counts) != 600 or min(counts) < 100:
            raise SystemExit(f"600 requests are served as {counts}")
        page = self.page(self.figures)
        seconds, count = (float(re.search(rf"duration_seconds_{what} (\S+)", page).group(1)) for what in ["sum", "count"])
        print(f"600 requests by 16 clients in {took:.1f} s: {counts}; a pick takes {1e6 * seconds / count:.0f} us in the mean", flush=True)
        if "requests{" in page and not all(line.endswith(" 0") for line in page.splitlines() if line.startswith("gpuwise_epp_endpoint_requests{")):
            raise SystemExit("requests that are over count as under way")

    def losses(self):
        """An engine that dies is passed over, and comes back; where all are dead, 503."""
        lost = self.engines[2]
        self.running[lost].kill()
        self.running[lost].wait()
        until("it is seen that one is gone", 10, lambda: f'endpoint_up{{endpoint="127.0.0.1:{lost}"}} 0' in self.page(self.figures) or "up")
        answers = {ask(self.ports["duplex"], f"{number} after")[0] for number in range(30)}
        if answers != {200}:
            raise SystemExit(f"with one engine gone: {answers}")
        for port in self.engines[:2]:
            self.running[port].kill()
            self.running[port].wait()

        def nobody():
            status, text, _, _ = ask(self.ports["duplex"], "anybody?")
            return (status == 503 and "answers" in text) or (status, text)

        until("nobody answers, and that is said", 10, nobody)
        self.running = {port: self.engine(port) for port in self.engines}
        until("they are back", 10, lambda: ask(self.ports["duplex"], "again")[0] == 200 or "not yet")
        print("an engine that dies is passed over; all dead: 503 with the reason; back again: 200", flush=True)

    def full(self, picker):
        """A picker that is gone is missed (fail closed) and found again; one with a limit says 429."""
        picker.send_signal(signal.SIGTERM)
        if picker.wait(10) != 0:
            raise SystemExit("the picker does not end well")
        status = ask(self.ports["duplex"], "without")[0]
        if status < 500:
            raise SystemExit(f"without a picker: {status}")
        picker = self.again(None, "--concurrency", "1")
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda number: ask(self.ports["duplex"], f"{number} full", tokens=25)[0], range(12)))
        if answers.count(200) != 3 or answers.count(429) != 9:
            raise SystemExit(f"12 at once where 3 may run: {sorted(answers)}")
        print(f"without a picker: {status}; 12 at once where 3 may run: 3 answered, 9 told 429", flush=True)
        return picker

    def again(self, picker, *more, **how):
        """Another picker in the place of one."""
        if picker:
            picker.send_signal(signal.SIGTERM)
            picker.wait(10)
        picker = self.pick(*more, **how)
        until("Envoy finds it again", 30, lambda: ask(self.ports["duplex"], "again")[0] == 200 or "not yet")
        return picker

    def objectives(self, picker):
        """Where all have enough to do, requests wait by the priorities of their objectives, and the least leave first."""
        named = ["--objective", "batch=-10", "--objective", "chat=100"]
        picker = self.again(picker, "--concurrency", "1", "--queue", "7", "--queue-time", "20s", *named)
        ended, dropped = [], []

        def one(objective, delay):
            time.sleep(delay)
            status, *_, why = answered(self.ports["duplex"], f"{objective} {delay}", tokens=40, x_gateway_inference_objective=objective)
            ended.append((time.monotonic(), objective, status)) if status == 200 else dropped.append((objective, status, why))

        asked = [("first", 0.0)] * 3 + [("batch", 0.2)] * 4 + [("none", 0.4)] * 3 + [("chat", 0.6)] * 3
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            list(pool.map(lambda it: one(*it), asked))
        order = [objective for _, objective, _ in sorted(ended)]
        if order != ["first"] * 3 + ["chat"] * 3 + ["none"] * 3 + ["batch"]:
            raise SystemExit(f"answered in this order: {order}; dropped: {dropped}")
        if dropped != [("batch", 429, "rejected-saturated")] * 3:
            raise SystemExit(f"dropped: {dropped}")
        log = "".join(log.read_text() for log in self.folder.glob("log-*"))
        if log.count('no InferenceObjective is named "none"') != 1:
            raise SystemExit("an unknown objective is not said once")
        picker = self.again(picker, "--concurrency", "1", "--queue", "6", "--queue-time", "100ms", *named)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            late = [one[-1] for one in pool.map(lambda number: answered(self.ports["duplex"], f"{number} late", tokens=40), range(4))]
        if sorted(late, key=str) != [None, None, None, "rejected-ttl-expired"]:
            raise SystemExit(f"who waits too long: {late}")
        print(f"objectives: {order}; 3 of priority -10 left a full line: 429; one who waited 0.1 s: 429", flush=True)
        return picker

    def events(self, picker):
        """A prompt goes to whichever engine says that it holds it, whatever was sent where."""
        a, b = engines = [Engine(free_port([1000, 2000])), Engine(free_port([1000, 2000]), old=True)]
        ports = "--kv-events", "+1000", "--kv-replay", "+2000"
        self.again(picker, *ports, engines=[one.port for one in engines])
        of = lambda name, one: float((re.search(rf'{name}{{endpoint="127.0.0.1:{one.port}"}} (\S+)', self.page(self.figures)) or [0, -1])[1])
        for one in engines:
            until("its events come", 10, lambda: of("kv_events_up", one) == 1 or self.page(self.figures))
        talk = "tell me about caches. " * 200
        blocks = len(a.hashes(talk))

        def home(more=""):
            before = [one.served for one in engines]
            status, text, _, _ = ask(self.ports["duplex"], talk + more)
            if status != 200:
                raise SystemExit(f"events: {status} {text}")
            return engines[[one.served - old for one, old in zip(engines, before)].index(1)]

        def goes(to, why):
            homes = {home(str(number)) for number in range(4)}
            if homes != {to}:
                raise SystemExit(f"{why}: requests went to {[one.port for one in homes]}, not {to.port}")

        def holds(one, count):
            until(f"{count} blocks are seen", 5, lambda: of("kv_blocks", one) == count or of("kv_blocks", one))

        first = home()
        other = b if first is a else a
        first.store(talk)
        holds(first, blocks)
        until("its tokens are known", 5, lambda: int(re.search(r"kv_texts (\d+)", self.page(self.figures))[1]) > 10 or "no")
        goes(first, "who was sent it")
        first.remove(talk)
        other.store(talk)
        holds(first, 0)
        holds(other, blocks)
        goes(other, "another holds it, and who was sent it does no more")
        # It is missed that it is dropped there, and said again.
        first.store(talk)
        holds(first, blocks)
        other.remove(talk, live=False)
        other.store("something else, of several blocks of tokens, which is of no matter here " * 4)
        until("what was missed is known", 5, lambda: 0 < of("kv_blocks", other) < blocks or of("kv_blocks", other))
        goes(first, "what was missed is said again")
        if of("kv_events_lost_total", other) != 0:
            raise SystemExit("it is lost though it was said again")
        # It is missed, and cannot be had again: nothing is known.
        first.publish(live=False, keep=False)
        first.publish()
        until("it is known that something is missing", 5, lambda: of("kv_events_lost_total", first) == 1 or "no")
        holds(first, 0)
        first.publisher.send_multipart((b"", first.number.to_bytes(8, "big"), b"\xdd\xff\xff\xff\xff"))
        first.number += 1
        until("it is no event", 5, lambda: of("kv_events_malformed_total", first) == 1 or "no")
        asked = sum(one.asked for one in engines)
        print(f"events: {blocks} blocks stored, dropped and missed: requests go where they are held; {asked} prompts asked about", flush=True)
        for one in engines:
            one.server.shutdown()

    def services(self):
        """A broker is asked the same: a service at rest is woken by Envoy's first request, and no token reaches it."""
        fleet = 'name = "f"\n[[gpu_kind]]\nname = "H100"\n[[node]]\nname = "n"\ngpus = "2xH100"\ncpu = 8\nmemory = "64GiB"\n'
        with Broker(self.gpuwise, self.folder, fleet, "--executor", "local", "--epp", f"127.0.0.1:{self.daemon}") as broker:
            self.served_by(broker)

    def served_by(self, broker):
        broker.run("tenant", "create", "team")
        engine = [self.gpuwise, "engine", "--model", "m", "--listen", "127.0.0.1:{port}", "--ttft", "5ms", "--load", "1s"]
        lease = json.loads(broker.run("lease", "request", "--tenant", "team", "--gpu", "1xH100", "--serve", "m", "--idle", "3s", "--format", "json", "--", *engine))
        port, bearer = self.ports["services"], {"Authorization": f"Bearer {broker.token}"}
        state = lambda: json.loads(broker.run("lease", "show", lease["id"], "--format", "json"))["state"]
        until("the service rests", 60, lambda: state() == "suspended" or state())
        began = time.monotonic()
        status, text, _, _ = ask(port, "wake up", **bearer)
        if status != 200:
            raise SystemExit(f"a service at rest: {status} {text}")
        woken = time.monotonic() - began
        refused = ask(port, "who am I?")[0], ask(port, "wrong", Authorization="Bearer x")[0]
        if refused != (401, 401):
            raise SystemExit(f"without a token and with a wrong one: {refused}")
        print(f"services: at rest until Envoy asks, answered after {woken:.1f} s; without a token {refused[0]}", flush=True)

    def stop(self):
        for process in self.processes:
            process.kill()


def main(gpuwise, envoy, folder):
    check = Check(gpuwise, envoy, folder)
    try:
        check.run()
    except BaseException:
        for log in sorted(folder.glob("log-*")):
            print(f"{log.name}: {log.read_text()[-1500:]}", file=sys.stderr)
        raise
    finally:
        check.stop()


if __name__ == "__main__":
    given = [os.path.abspath(shutil.which(one) or one) for one in sys.argv[1:3]]
    with tempfile.TemporaryDirectory(prefix="gpuwise-epp-") as made:
        main(*given, pathlib.Path(made))
