"""GpuWorkloads that follow what is measured, on a real control plane with a real Prometheus.

Two days of telemetry are planted into Prometheus for the very pods that the cluster runs, and an exporter of this
script goes on with it while the check runs: what an engine, DCGM and kube-state-metrics would show.
"""

import http.server
import json
import pathlib
import subprocess
import threading
import time
import urllib.parse
import urllib.request

from cluster import free_port, until
from operator_parts import Operator, node
from operator_warm import Warm

SPACE = "tiers"
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
MODEL = "meta-llama/Llama-3.1-8B"
STEP, HOURS = 120, 48
# Seconds, of the buckets of an engine's histogram of times to the first token.
BOUNDS = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]


class Telemetry:
    """What exporters show of the pods of one namespace."""

    def __init__(self, cluster):
        self.cluster, self.ttft, self.tpot, self.rate = cluster, 0.3, 0.04, 0.3
        self.demand = 0.0
        self.began = time.time() - HOURS * 3600
        self.pods, self.at, self.counts = [], self.began, {}
        self.ended = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while not self.ended.wait(1):
            try:
                self.look()
            except SystemExit:
                # The cluster is not there yet, or no more.
                continue

    def look(self):
        """Pods with a node: name, ReplicaSet, Deployment, product of the node."""
        nodes = json.loads(self.cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        product = {one["metadata"]["name"]: one["metadata"]["labels"].get("nvidia.com/gpu.product", "") for one in nodes}
        found = []
        for one in json.loads(self.cluster.kubectl("get", "pods", "-n", SPACE, "-o", "json"))["items"]:
            owners = one["metadata"].get("ownerReferences", [])
            if one["spec"].get("nodeName") and owners and owners[0]["kind"] == "ReplicaSet":
                owner = owners[0]["name"]
                found.append((one["metadata"]["name"], owner, owner.rsplit("-", 1)[0], product[one["spec"]["nodeName"]]))
        self.pods = found

    def lines(self, at):
        """Samples at a time (seconds), by name and labels."""
        device = {H100: ("NVIDIA H100 80GB HBM3", 73_000.0), L4: ("NVIDIA L4", 20_500.0)}
        for pod, owner, deployment, product in self.pods:
            model, memory = device.get(product, ("NVIDIA H200", 100_000.0))
            of = f'exported_namespace="{SPACE}",exported_pod="{pod}",exported_container="server",modelName="{model}",UUID="GPU-{pod}",Hostname="n-{pod}",gpu="0",device="nvidia0"'
            yield f"DCGM_FI_DEV_FB_USED{{{of}}}", memory
            yield f"DCGM_FI_PROF_SM_ACTIVE{{{of}}}", 0.05 + 0.01 * (int(at) // STEP % 3)
            yield f"DCGM_FI_PROF_DRAM_ACTIVE{{{of}}}", 0.03
            of = f'namespace="{SPACE}",pod="{pod}"'
            yield f'kube_pod_owner{{{of},owner_kind="ReplicaSet",owner_name="{owner}"}}', 1
            yield f'kube_replicaset_owner{{namespace="{SPACE}",replicaset="{owner}",owner_kind="Deployment",owner_name="{deployment}"}}', 1
            yield f'kube_pod_container_resource_limits{{{of},container="server",resource="nvidia_com_gpu",unit="integer"}}', 1
            of += f',model_name="{MODEL}"'
            yield f"vllm:num_requests_waiting{{{of}}}", 0
            yield f"vllm:kv_cache_usage_perc{{{of}}}", 0.02
            requests = self.counts.get(pod, 0.0)
            yield f"vllm:e2e_request_latency_seconds_count{{{of}}}", requests
            yield f"vllm:e2e_request_latency_seconds_sum{{{of}}}", requests * 2.5
            yield f"vllm:prompt_tokens_total{{{of}}}", requests * 500
            yield f"vllm:generation_tokens_total{{{of}}}", requests * 100
            for name, bounds in (("vllm:time_to_first_token_seconds", BOUNDS), ("vllm:request_time_per_output_token_seconds", [b / 10 for b in BOUNDS])):
                seen = self.counts.get((pod, name), {})
                for bound in [*bounds, "+Inf"]:
                    yield f'{name}_bucket{{{of},le="{bound}"}}', seen.get(bound, 0.0)
                yield f"{name}_count{{{of}}}", seen.get("+Inf", 0.0)
        for deployment in sorted({one[2] for one in self.pods}):
            count = sum(one[2] == deployment for one in self.pods)
            yield f'kube_deployment_spec_replicas{{namespace="{SPACE}",deployment="{deployment}"}}', count

    def pass_time(self, seconds):
        """Requests come for so long: each is as late as is said now."""
        for pod, _, deployment, _ in self.pods:
            each = self.rate * seconds / max(1, sum(one[2] == deployment for one in self.pods))
            self.counts[pod] = self.counts.get(pod, 0.0) + each
            for name, late, scale in (("vllm:time_to_first_token_seconds", self.ttft, 1), ("vllm:request_time_per_output_token_seconds", self.tpot, 10)):
                seen = self.counts.setdefault((pod, name), {})
                for bound in BOUNDS:
                    seen[bound / scale] = seen.get(bound / scale, 0.0) + each * (late <= bound / scale)
                seen["+Inf"] = seen.get("+Inf", 0.0) + each

    def plant(self, file):
        """The days before now, as OpenMetrics that promtool makes blocks of."""
        self.look()
        rows = {}
        at = self.began
        while at < time.time() - 10:
            self.pass_time(STEP)
            for series, value in self.lines(at):
                rows.setdefault(series, []).append(f"{series} {value} {at:.0f}")
            at += STEP
        names = {}
        for series, lines in rows.items():
            names.setdefault(series.split("{")[0], []).extend(lines)
        with open(file, "w") as out:
            for name, lines in names.items():
                out.write(f"# TYPE {name} gauge\n" + "\n".join(lines) + "\n")
            out.write("# EOF\n")
        self.at = time.time()

    def text(self):
        now = time.time()
        self.pass_time(now - self.at)
        self.at = now
        lines = [f"{series} {value}" for series, value in self.lines(now)]
        return "\n".join([*lines, f"demand {self.demand}"]) + "\n"


class Server:
    """A real Prometheus with planted days, which scrapes the exporter every second."""

    def __init__(self, folder, telemetry):
        self.folder, self.telemetry = folder / "prometheus", telemetry
        self.folder.mkdir()
        self.port, self.process = free_port(), None
        self.address = f"http://127.0.0.1:{self.port}"
        self.also = []

        class Exporter(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = telemetry.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.exporter = http.server.HTTPServer(("127.0.0.1", 0), Exporter)
        threading.Thread(target=self.exporter.serve_forever, daemon=True).start()

    def start(self):
        planted, data = self.folder / "planted.txt", self.folder / "tsdb"
        self.telemetry.plant(planted)
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", str(planted), str(data)], check=True, capture_output=True)
        jobs = [{"job_name": "planted", "honor_labels": True, "scrape_interval": "1s", "static_configs": [{"targets": [f"127.0.0.1:{self.exporter.server_address[1]}"]}]}]
        jobs += self.also
        config = {"scrape_configs": jobs, "global": {"scrape_timeout": "1s", "scrape_interval": "1s"}}
        # JSON is YAML.
        (self.folder / "prometheus.yaml").write_text(json.dumps(config))
        words = ["prometheus", f"--config.file={self.folder}/prometheus.yaml", f"--storage.tsdb.path={data}"]
        words += [f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error", "--storage.tsdb.retention.time=10d"]
        self.process = subprocess.Popen(words)
        until("Prometheus answers", 60, lambda: bool(self.ask("up")) or "nothing is scraped")

    def ask(self, query):
        url = f"{self.address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            return json.loads(urllib.request.urlopen(url, timeout=10).read())["data"]["result"]
        except OSError:
            return []

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(20)
        self.telemetry.ended.set()
        self.exporter.shutdown()


def workload(name, **more):
    spec = {"model": MODEL, "gpus": ["H100", "L4"], "engine": "vllm"}
    spec["traffic"] = {"rate": "20/s", "inputTokens": 500, "outputTokens": 100}
    spec["slo"] = {"ttft": "p95:2s", "tpot": "p95:70ms"}
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuWorkload", "metadata": metadata, "spec": {**spec, **more}}


def legacy():
    """A Deployment of somebody's, on H100, which asks to be where it belongs."""
    metadata = {"name": "legacy", "namespace": SPACE, "labels": {"gpuwise.dev/tier": "auto"}}
    metadata["annotations"] = {"gpuwise.dev/slo-ttft": "p95:2s", "gpuwise.dev/tier-verify-seconds": "20"}
    container = {"name": "server", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"labels": {"app": "legacy"}}, "spec": {"containers": [container], "nodeSelector": {"nvidia.com/gpu.product": H100}}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "legacy"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


class Tiers:
    def __init__(self, check):
        self.check, self.cluster = check, check.cluster
        self.operator = Operator(check)
        self.telemetry = Telemetry(self.cluster)
        self.prometheus = Server(check.folder, self.telemetry)
        self.scaler_port, self.warm = free_port(), Warm(self, workload)

    def get(self, name, path):
        return self.cluster.kubectl("get", "gpuworkload", name, "-n", SPACE, "-o", "jsonpath={" + path + "}")

    def status(self, name):
        return json.loads(self.cluster.kubectl("get", "gpuworkload", name, "-n", SPACE, "-o", "json")).get("status", {})

    def tiered(self, name):
        return next((one for one in self.status(name).get("conditions", []) if one["type"] == "Tiered"), {})

    def products(self, name, label="gpuwise.dev/workload"):
        """On nodes of which products its pods are, and how many are ready."""
        found, ready = [], 0
        nodes = json.loads(self.cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        product = {one["metadata"]["name"]: one["metadata"]["labels"].get("nvidia.com/gpu.product") for one in nodes}
        pods = json.loads(self.cluster.kubectl("get", "pods", "-n", SPACE, "-l", f"{label}={name}", "-o", "json"))["items"]
        for one in pods:
            if one["spec"].get("nodeName"):
                found.append(product[one["spec"]["nodeName"]])
                ready += any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", []))
        return sorted(found), ready

    def wait(self, what, name, seconds, check, least=0):
        """Until something holds of a workload; never with fewer ready pods than that."""
        def look():
            pods, ready = self.products(name)
            if ready < least:
                raise SystemExit(f"{what}: {ready} pods of {name} are ready; {least} were to be")
            return True if check(pods) else f"{pods}, {self.tiered(name)}"
        began = time.monotonic()
        until(what, seconds, look)
        return time.monotonic() - began

    def run(self):
        kubectl = self.cluster.kubectl
        nodes = [node(f"h100-{i}", **{"nvidia.com/gpu.product": H100}) for i in range(2)]
        nodes += [node(f"l4-{i}", **{"nvidia.com/gpu.product": L4}) for i in range(2)]
        kubectl("apply", "--server-side", "-f", "-", given="\n---\n".join(json.dumps(one) for one in nodes))
        # Where the webhook is tried, and where workloads are.
        for name in ("team", SPACE):
            self.cluster.apply(json.dumps({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "labels": {"gpuwise.dev/managed": "true"}}}))
        self.operator.install("act")
        book = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuPriceBook", "metadata": {"name": "default"}}
        book["spec"] = {"currency": "USD", "prices": [{"product": H100, "perHour": "2.50"}, {"product": L4, "perHour": "0.80"}, {"product": "NVIDIA-H200", "perHour": "3.29"}]}
        self.cluster.apply(json.dumps(book))
        words = ["--prometheus", self.prometheus.address, "--measure-every", "2s", "--audit-every", "5s", "--audit-days", "2", "--slo-window", "10s", "--scaler", f"127.0.0.1:{self.scaler_port}"]
        self.process = self.operator.start(*words, name="tiers")
        self.operator.webhook_answers()
        self.moves()
        self.follows()
        self.warm.run()
        self.dashboard()
        self.plugin()
        self.operator.stop()

    def moves(self):
        """Too large by an audit, cheaper by the price book, moved, watched, proven; and back where its SLO is missed."""
        kubectl = self.cluster.kubectl
        tiering = {"mode": "auto", "verifySeconds": 20, "rolloutSeconds": 60}
        self.cluster.apply(json.dumps(legacy()))
        self.cluster.apply(json.dumps(workload("chat", tiering=tiering)))
        self.wait("it runs on H100", "chat", 120, lambda pods: pods == [H100])
        print(f"GpuWorkload chat: {self.get('chat', '.status.decision.why')}; {self.get('chat', '.status.decision.costPerHour')} an hour", flush=True)
        until("somebody's Deployment runs on H100", 60, lambda: self.products("legacy", "app") == ([H100], 1) or self.products("legacy", "app"))
        target = f"127.0.0.1:{self.process.metrics_port}"
        self.prometheus.also = [{"job_name": "gpuwise-operator", "static_configs": [{"targets": [target]}]}]
        began = time.monotonic()
        self.prometheus.start()
        self.wait("it moves to L4", "chat", 120, lambda pods: pods == [L4], least=1)
        took = time.monotonic() - began
        moved = self.status("chat")
        print(f"after {took:.0f} s on L4: {moved['decision']['why']}", flush=True)
        self.wait("the saving is proven", "chat", 90, lambda _: self.status("chat").get("saved", {}).get("proven") is not None, least=1)
        saved = self.status("chat")["saved"]
        print(f"Tiered: {self.tiered('chat')['message']}; {json.dumps(saved)}; costs {self.get('chat', '.status.decision.costPerHour')} an hour", flush=True)
        if saved["measuredPerHour"] != saved["predictedPerHour"] or not saved["proven"]:
            raise SystemExit(f"the bill did not fall as predicted: {saved}")
        self.somebodys([L4], "Settled")
        self.telemetry.ttft = 5.0
        took = self.wait("it is back on H100", "chat", 90, lambda pods: pods == [H100], least=1)
        self.wait("that is said", "chat", 60, lambda _: self.tiered("chat").get("reason") in ("RolledBack", "Stays"), least=1)
        avoided = self.status("chat")["avoided"]
        print(f"TTFT 5 s: back on H100 after {took:.0f} s; avoided: {avoided[0]['gpu']}: {avoided[0]['why']}", flush=True)
        self.somebodys([H100], "RolledBack")
        self.telemetry.ttft = 0.3
        # Audits still call it too large: it stays, and says why.
        end = time.monotonic() + 15
        while time.monotonic() < end:
            if self.products("chat")[0] != [H100]:
                raise SystemExit("it went where its SLO was missed")
            time.sleep(1)
        print(f"15 s and more audits later it is there: {self.tiered('chat')['message']}", flush=True)
        events = json.loads(kubectl("get", "events", "-n", SPACE, "-o", "json"))["items"]
        for one in events:
            if one["source"].get("component") == "gpuwise-operator" and one["involvedObject"]["kind"] != "Pod":
                print(f"event {one['involvedObject']['kind']} {one['type']} {one['reason']}: {one['message']}", flush=True)

    def somebodys(self, wanted, reason):
        """Somebody's Deployment is there, and that is said."""
        said = lambda: {one["reason"] for one in json.loads(self.cluster.kubectl("get", "events", "-n", SPACE, "-o", "json"))["items"] if one["involvedObject"]["name"] == "legacy"}
        note = lambda: self.cluster.kubectl("get", "deployment", "legacy", "-n", SPACE, "-o", "jsonpath={.metadata.annotations.gpuwise\\.dev/tier-reason}")
        until(f"legacy is on {wanted}", 90, lambda: self.products("legacy", "app")[0] == wanted and reason in said() or f"{self.products('legacy', 'app')} {said()} {note()}")
        print(f"Deployment legacy is on {wanted[0]}: {note()}", flush=True)

    def endpoints(self, name):
        """Pods that a Service sends to."""
        slices = json.loads(self.cluster.kubectl("get", "endpointslices", "-n", SPACE, "-l", f"kubernetes.io/service-name={name}", "-o", "json"))["items"]
        return sorted(one["targetRef"]["name"] for of in slices for one in of.get("endpoints") or [] if one.get("conditions", {}).get("ready"))

    def follows(self):
        """Replicas follow what comes, none where nothing does; then its quota is others'. Warm pods become replicas."""
        kubectl = self.cluster.kubectl
        quota = {"apiVersion": "gpuwise.dev/v1alpha1", "kind": "GpuQuota", "metadata": {"name": "tiers"}, "spec": {"namespaces": [SPACE], "gpus": 32}}
        self.cluster.apply(json.dumps(quota))
        used = lambda: int(kubectl("get", "gpuquota", "tiers", "-o", "jsonpath={.status.used}") or 0)
        scaling = {"maxReplicas": 6, "query": "demand", "idleSeconds": 6, "holdSeconds": 4, "warm": 2}
        self.cluster.apply(json.dumps(workload("burst", scaling=scaling, traffic={"rate": "1/s", "inputTokens": 500, "outputTokens": 100}, gpus=["L4"])))
        replicas = lambda: int(kubectl("get", "deployment", "burst", "-n", SPACE, "-o", "jsonpath={.spec.replicas}") or 0)
        until("burst is made", 60, lambda: self.status("burst").get("decision") is not None or self.status("burst"))
        until("its Deployment is there", 60, lambda: "apps/burst\n" in kubectl("get", "deployments", "-n", SPACE, "-o", "name") or "none")
        each = float(self.status("burst")["decision"]["ratePerReplica"])
        warm = lambda: self.products("burst", "gpuwise.dev/warm")
        for demand, least, most in [(0.0, 0, 0), (3.2 * each, 4, 6), (0.0, 0, 0), (0.5 * each, 1, 6)]:
            until("two pods are warm", 60, lambda: warm()[1] == 2 or warm())
            began = time.monotonic()
            self.telemetry.demand = demand
            until(f"{demand:.2f} requests/s: {least} to {most} replicas", 90, lambda: least <= replicas() <= most or replicas())
            took = time.monotonic() - began
            until("its Service sends to as many", 60, lambda: len(self.endpoints("burst")) == replicas() or (self.endpoints("burst"), replicas()))
            woken = [name for name in self.endpoints("burst") if "-warm-" in name]
            until("the quota is told", 30, lambda: used() == 2 + 2 + replicas() or used())
            print(f"burst, {demand:.2f} requests/s at {each} a replica: {replicas()} replicas after {took:.1f} s, {len(woken)} of them warm before; the namespace holds {used()} GPUs", flush=True)
            if demand and len(woken) < min(2, replicas()):
                raise SystemExit(f"warm pods were not taken: {self.endpoints('burst')}")
        figures = self.operator.figures(self.process)
        count, total = figures["gpuwise_operator_adopt_seconds_count"], figures["gpuwise_operator_adopt_seconds_sum"]
        within = figures['gpuwise_operator_adopt_seconds_bucket{le="1"}']
        print(f"{count:.0f} warm pods became replicas, {total / count:.3f} s after they were wanted on average; {within:.0f} within 1 s", flush=True)
        # Others run beside: most are to be within it.
        if within < count / 2 or total / count >= 1:
            raise SystemExit("warm pods took longer than a second")
        kubectl("delete", "gpuworkload", "burst", "-n", SPACE)

    def dashboard(self):
        """What the dashboard and the alerts of deploy/ ask, the real Prometheus answers of the running operator."""
        deploy = pathlib.Path(__file__).resolve().parent.parent / "deploy"
        board = json.loads((deploy / "grafana/operator.json").read_text())
        silent = []
        for panel in board["panels"]:
            for target in panel["targets"]:
                expr = target["expr"].replace("$job", "gpuwise-operator").replace("$instance", ".+").replace("$__rate_interval", "30s")
                if not self.prometheus.ask(expr):
                    silent.append(panel["title"])
        if silent:
            raise SystemExit(f"panels without data: {silent}")
        rules = subprocess.run(["promtool", "check", "rules", str(deploy / "prometheus/operator.yaml")], capture_output=True, text=True)
        if rules.returncode:
            raise SystemExit(rules.stderr)
        print(f"dashboard: {len(board['panels'])} panels answered; {rules.stdout.strip().splitlines()[-1].strip()}", flush=True)

    def plugin(self):
        """`kubectl gpuwise audit` prints what `gpuwise audit` prints."""
        plugin = self.check.folder / "kubectl-gpuwise"
        if not plugin.exists():
            plugin.symlink_to(pathlib.Path(self.check.gpuwise).resolve())
        words = ["audit", "--prometheus", self.prometheus.address, "--days", "2", "--forget"]
        told = [subprocess.run([str(program), *words], capture_output=True, text=True).stdout for program in (plugin, self.check.gpuwise)]
        if told[0] != told[1] or "legacy" not in told[0]:
            raise SystemExit(f"{told[0]}\nis not\n{told[1]}")
        print(told[0], flush=True)

    def stop(self):
        self.operator.stop()
        self.warm.stop()
        self.prometheus.stop()
