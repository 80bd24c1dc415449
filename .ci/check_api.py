"""Holds a running broker to its own description: nothing that schemathesis makes up gets a 500, and answers are as
their schemas say.

    python3 .ci/check_api.py GPUWISE SCHEMATHESIS [SECONDS]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benches"))
from broker import Broker

FLEET = """
name = "api"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n{1..2}"
gpus = "8xH100"
cpu = 64
memory = "1TiB"
"""

CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance,ignored_auth"


def main():
    gpuwise, schemathesis = map(os.path.abspath, sys.argv[1:3])
    seconds = sys.argv[3] if len(sys.argv) > 3 else "60"
    with tempfile.TemporaryDirectory() as folder, Broker(gpuwise, folder, FLEET, "--speed", "60") as broker:
        broker.run("tenant", "create", "vision", "--budget", "1000usd")
        broker.run("lease", "request", "--tenant", "vision", "--gpu", "2xH100", "--for", "1h")
        run = [schemathesis, "run", f"{broker.url}/openapi.json", "--header", f"Authorization: Bearer {broker.token}",
               "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-time", seconds,
               "--continue-on-failure", "--request-timeout", "30", "--warnings", "off", "--seed", "7",
               # One never ends; the others wait for services, of which there are none.
               "--exclude-path", "/v1/events",
               "--exclude-path-regex", "completions$"]
        code = subprocess.run(run, cwd=folder).returncode
        if broker.daemon.poll() is not None:
            sys.exit(f"the broker ended with {broker.daemon.returncode}")
        print(broker.run("store", "check", "--store", broker.store))
        sys.exit(code)


main()
