"""Holds the files of deploy/ to what reads them: a real Prometheus scrapes a running broker, loads the alerts and
answers every query of the dashboard; units and containers name flags that there are.

check_deploy.py BINARY
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from cluster import free_port

binary = str(pathlib.Path(sys.argv[1]).resolve())
root = pathlib.Path(__file__).resolve().parent.parent
deploy = root / "deploy"


def get(url, token=None):
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            found = what()
            if found:
                return found
        except OSError:
            pass
        assert time.monotonic() < end, f"{what.__name__} never came"
        time.sleep(0.2)


def dashboard_rules(board):
    """What Grafana's own linter (github.com/grafana/dashboard-linter, with --strict) asks of a dashboard. It runs
    itself where it is installed; not every registry has it."""
    choices = {one["name"]: one for one in board["templating"]["list"]}
    assert list(choices)[0] == "datasource" and choices["datasource"]["query"] == "prometheus", "a data source can be chosen"
    for name in ("job", "instance"):
        one = choices[name]
        assert one["multi"] and one["includeAll"] and one["allValue"] == ".+", f"{name}: several, or all, can be chosen"
        assert one["datasource"]["uid"] == "${datasource}" and one["refresh"] == 2, f"{name}: is looked up again"
    assert not board["editable"], "what is provisioned is not edited"
    seen = set()
    for panel in board["panels"]:
        name = panel["title"]
        assert name and name not in seen, f"two panels {name!r}"
        seen.add(name)
        assert panel["description"], f"{name}: says nothing of what it shows"
        assert panel["fieldConfig"]["defaults"]["unit"], f"{name}: has no unit"
        assert panel["datasource"]["uid"] == "${datasource}", f"{name}: another data source"
        assert panel["targets"], f"{name}: asks nothing"
        for target in panel["targets"]:
            expr = target["expr"]
            for metric, labels in re.findall(r"(gpuwise_\w+)(\{[^}]*\})?", expr):
                for label in ("job", "instance"):
                    assert f'{label}=~"${label}"' in labels, f"{name}: {metric} is not of the {label} that is chosen"
            for total in re.findall(r"(?:(\w+)\()?gpuwise_\w+_total\b", expr):
                assert total in ("rate", "irate", "increase"), f"{name}: a counter as it is"
            for range_ in re.findall(r"rate\([^\[]*\[([^\]]*)\]", expr):
                assert range_ == "$__rate_interval", f"{name}: a rate over {range_}"


def grafanas_linter():
    if linter := shutil.which("dashboard-linter"):
        for board in ("broker.json", "operator.json"):
            subprocess.run([linter, "lint", "--strict", deploy / "grafana" / board], check=True)
    else:
        print("without dashboard-linter: its rules as this script knows them")


def queries(board):
    for panel in board["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$job", "gpuwise").replace("$instance", ".+").replace("$__rate_interval", "10s")
            yield panel["title"], expr


def flags_are_there():
    known = subprocess.run([binary, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    config = (deploy / "systemd/broker.toml").read_text()
    for name in re.findall(r"^([a-z-]+) =", config, re.M):
        assert f"--{name}" in known, f"broker.toml names {name}, which serve does not have"
    for file in ["container/Containerfile", "container/compose.yaml", "systemd/gpuwise.service"]:
        text = (deploy / file).read_text()
        for line in [line for line in text.splitlines() if "serve" in line]:
            for name in re.findall(r"--[a-z-]+", line):
                assert name in known, f"{file} names {name}, which serve does not have"


def main():
    board = json.loads((deploy / "grafana/broker.json").read_text())
    dashboard_rules(board)
    # Its queries are asked where an operator runs: operator_tiers.py.
    dashboard_rules(json.loads((deploy / "grafana/operator.json").read_text()))
    grafanas_linter()
    flags_are_there()
    for rules in ("alerts.yaml", "operator.yaml"):
        subprocess.run(["promtool", "check", "rules", deploy / "prometheus" / rules], check=True)
    if shutil.which("systemd-analyze"):
        unit = (deploy / "systemd/gpuwise.service").read_text().replace("/usr/bin/gpuwise", binary)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gpuwise.service"
            path.write_text(unit.replace("User=gpuwise\nGroup=gpuwise\n", ""))
            said = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
            own = [line for line in said.stderr.splitlines() if "gpuwise.service" in line]
            assert not own, own
    else:
        print("without systemd-analyze: the unit was not checked by systemd")
    with tempfile.TemporaryDirectory() as folder:
        watched(pathlib.Path(folder), board)
    print("deploy/: alerts load, the dashboard's queries answer, flags are there")


def watched(folder, board):
    ports = [free_port(), free_port()]
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    listen = f"127.0.0.1:{ports[0]}"
    serve = [binary, "serve", "--listen", listen, "--store", f"sqlite://{folder}/log.db", "--speed", "60"]
    config = (deploy / "prometheus/prometheus.yaml").read_text()
    config = config.replace("broker:8600", listen).replace("15s", "1s")
    (folder / "prometheus.yaml").write_text(config)
    shutil.copy(deploy / "prometheus/alerts.yaml", folder / "alerts.yaml")
    running = [subprocess.Popen(serve, env=env, stderr=subprocess.DEVNULL)]
    try:
        url = f"http://{listen}"

        def the_broker():
            return get(f"{url}/readyz")

        until(the_broker)
        token = next((folder / ".local/state/gpuwise").glob("*.token")).read_text().strip()
        ask = {"env": env | {"GPUWISE_URL": url, "GPUWISE_TOKEN": token}, "check": True, "capture_output": True}
        subprocess.run([binary, "tenant", "create", "vision"], **ask)
        lease = [binary, "lease", "request", "--tenant", "vision", "--gpu", "1xH100"]
        subprocess.run(lease, **ask)
        subprocess.run([binary, "slo", "set", "L-1", "--time-to-lease", "p95:1h"], **ask | {"check": False})
        server = f"127.0.0.1:{ports[1]}"
        started = ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb"]
        started += [f"--web.listen-address={server}", "--log.level=error"]
        running.append(subprocess.Popen(started))

        def asked(expr):
            query = urllib.parse.urlencode({"query": expr})
            return json.loads(get(f"http://{server}/api/v1/query?{query}"))["data"]["result"]

        def scrapes():
            return asked('sum(count_over_time(gpuwise_info{job="gpuwise"}[1m])) > 4')

        until(scrapes)
        rules = json.loads(get(f"http://{server}/api/v1/rules"))["data"]["groups"]
        assert sum(len(group["rules"]) for group in rules) == 7, rules
        assert all(rule["health"] != "err" for group in rules for rule in group["rules"]), rules
        quiet = []
        for title, expr in queries(board):
            if not asked(expr):
                quiet.append(title)
        # Nothing went through the gateway, and no objective has had an event.
        unexpected = set(quiet) - {"Time to first token", "Error budget of each SLO"}
        assert not unexpected, f"panels without data: {sorted(unexpected)}"
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


main()
