"""A broker in a folder of its own, for scripts: started with a fresh log, spoken to by the command line, ended with
what it started.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

# What the user of this machine has said for himself.
OWN = ("XDG_STATE_HOME", "XDG_DATA_HOME", "GPUWISE_TOKEN", "GPUWISE_URL", "GPUWISE_STORE")


def descendants(roots):
    """Processes that descend from these and run; a supervisor ends with the last of what it started."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX":
            parents[int(stat.parent.name)] = int(parent)
    found, open_ = set(), set(roots)
    while open_:
        open_ = {pid for pid, parent in parents.items() if parent in open_} - found
        found |= open_
    return found


class Broker:
    """`with Broker(gpuwise, folder, fleet, *flags) as broker`: `broker.url`, and `broker.run(...)` a command."""

    def __init__(self, gpuwise, folder, fleet, *flags):
        self.gpuwise, self.place = os.path.abspath(gpuwise), pathlib.Path(folder)
        self.store = f"sqlite://{self.place}/log.db"
        (self.place / "fleet.toml").write_text(fleet)
        self.environment = {**os.environ, "HOME": str(folder)}
        for name in OWN:
            self.environment.pop(name, None)
        serve = [self.gpuwise, "serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml", "--store", self.store, *flags]
        if "local" in flags and "--run-as" not in flags:
            # Containers run scripts as root, and what these lease is their own.
            serve.append("--same-account")
        self.daemon = subprocess.Popen(serve, cwd=folder, env=self.environment, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        said = []
        for line in self.daemon.stderr:
            said.append(line)
            if found := re.search(r"Broker at (\S+),", line):
                break
        else:
            raise SystemExit(f"the broker did not start: {''.join(said)}")
        self.url = found[1]
        self.token = next(self.place.glob(".local/state/gpuwise/*.token")).read_text().strip()
        self.environment.update(GPUWISE_URL=self.url, GPUWISE_TOKEN=self.token)
        return self

    def run(self, *words):
        """What a command prints."""
        ran = subprocess.run([self.gpuwise, *words], env=self.environment, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"{' '.join(words)}: {ran.stderr}")
        return ran.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "--format", "json"))

    def __exit__(self, *_):
        # It says what it has still to say, and ends; what it started goes on without it, by design.
        self.daemon.terminate()
        self.daemon.communicate(timeout=30)
        supervisors = set()
        for kept in self.place.glob(".local/state/gpuwise/*/leases/*/runs.json"):
            supervisors.update(process["pid"] for process in json.loads(kept.read_text())["processes"])
        while left := descendants(supervisors):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
