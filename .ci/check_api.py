"""Holds a running broker to its own description: nothing that schemathesis makes up gets a 500, and answers are as
their schemas say.

    python3 .ci/check_api.py GPUWISE SCHEMATHESIS [SECONDS]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

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
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "fleet.toml").write_text(FLEET)
        environment = {**os.environ, "HOME": folder}
        for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "GPUWISE_TOKEN", "GPUWISE_URL", "GPUWISE_STORE"):
            environment.pop(name, None)
        serve = [gpuwise, "serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml", "--store", "sqlite://api.db",
                 "--speed", "60"]
        daemon = subprocess.Popen(serve, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            url = next(found[1] for line in daemon.stderr if (found := re.search(r"Broker at (\S+),", line)))
            token = next(place.glob(".local/state/gpuwise/*.token")).read_text().strip()
            environment.update(GPUWISE_URL=url, GPUWISE_TOKEN=token)
            for command in (
                ["tenant", "create", "vision", "--budget", "1000usd"],
                ["lease", "request", "--tenant", "vision", "--gpu", "2xH100", "--for", "1h"],
            ):
                subprocess.run([gpuwise, *command], check=True, env=environment, stdout=subprocess.DEVNULL)
            run = [schemathesis, "run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {token}",
                   "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-time", seconds,
                   "--continue-on-failure", "--request-timeout", "30", "--warnings", "off", "--seed", "7",
                   # One never ends; the others wait for services, of which there are none.
                   "--exclude-path", "/v1/events",
                   "--exclude-path-regex", "completions$"]
            code = subprocess.run(run, cwd=folder).returncode
            if daemon.poll() is not None:
                sys.exit(f"the broker ended with {daemon.returncode}")
            check = [gpuwise, "store", "check", "--store", f"sqlite://{place}/api.db"]
            code = subprocess.run(check, env=environment).returncode or code
            sys.exit(code)
        finally:
            daemon.kill()
            daemon.wait()


main()
