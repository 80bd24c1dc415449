"""Starts the llama.cpp command that gpuwise emits for a model, as it is printed, and compares the
cache that the server logs with the one that gpuwise predicts.

Usage: check_llamacpp.py GPUWISE MODEL.gguf    (llama-server must be on the PATH)
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

WORKLOAD = ["--concurrency", "4", "--isl", "200", "--osl", "50"]
PLACE = ["--engine", "llamacpp", "--gpu", "L4", "--offline"]
MIB = 1024 * 1024


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stdout


def option(words, *names):
    """The value of the first of these options in a command."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else words[at + 1]
    sys.exit(f"the emitted command has none of {', '.join(names)}: {shlex.join(words)}")


def wait_for(address, server, log):
    """Until the server answers; it has a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.poll() is not None:
            log.seek(0)
            sys.exit(f"the server ended with {server.returncode}:\n{log.read()}")
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    log.seek(0)
    sys.exit(f"the server does not answer at {address}:\n{log.read()}")


def main():
    gpuwise, model = sys.argv[1:]
    command = output(gpuwise, "plan", model, *WORKLOAD, *PLACE, "--emit", "llamacpp")
    print(command.strip())
    lines = [line for line in command.splitlines() if not line.lstrip().startswith("#")]
    words = shlex.split(" ".join(line.rstrip("\\") for line in lines))
    tokens = int(option(words, "-c", "--ctx-size"))
    port = option(words, "--port") if any(word.startswith("--port") for word in words) else "8080"

    memory = json.loads(
        output(gpuwise, "memory", model, "--context", "250", "--concurrency", "4", *PLACE, "--format", "json")
    )
    predicted = memory["model"]["kv_bytes_per_token"] * tokens / MIB

    # The log level is raised by the environment, so that the command stays as it was emitted.
    environment = {**os.environ, "LLAMA_ARG_LOG_VERBOSITY": "4"}
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            ["bash", "-c", command], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for(f"http://127.0.0.1:{port}", server, log)
        finally:
            # The shell and the server that it started.
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
        log.seek(0)
        text = log.read()

    logged = [float(size) for size in re.findall(r"KV buffer size\s*=\s*([\d.]+) MiB", text)]
    if not logged:
        sys.exit(f"the server logged no size of its cache:\n{text}")
    print(f"KV cache of {tokens} tokens: predicted {predicted:.2f} MiB, logged {sum(logged):.2f} MiB")
    if abs(sum(logged) - predicted) > 0.01 + 0.01 * predicted:
        sys.exit("the logged cache is not the predicted one")


if __name__ == "__main__":
    main()
