"""Whether gains that `gpuwise profile` predicts come true: `check_gains.py GPUWISE PYTHON`.

Three programs, each with one fault, are profiled; the first finding must name the fault, and its advice is
applied to the program as it stands there (`Add … to …`, `Replace … by …`). Both are timed without a profiler,
and what was gained must lie in the range that was predicted. A machine that does something else meanwhile
spoils a measurement: three tries, of which one has to hold; a wrong finding fails at once.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent / "gains"
PROGRAMS = {
    "loader.py": "cpu_data_loading",
    "scalars.py": "cpu_scalar_reads",
    "optimizer.py": "cpu_optimizer",
}
TRIES = 3


def run(command, folder):
    # Threads that wait for one another would measure who else is on the machine.
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s ended with %d:\n%s" % (" ".join(map(str, command)), done.returncode, done.stderr))
    return done.stdout


def timed(python, folder, *programs):
    """Seconds a step of each, which take turns."""
    out = run([python, "timed.py", *(program.stem for program in programs)], folder)
    return map(float, re.findall(r"seconds a step: ([\d.]+)", out))


def first_finding(gpuwise, python, program):
    traces = program.parent / "traces"
    run([gpuwise, "profile", "run", "--steps", "5..25", "--traces", traces, "--", python, program.name],
        program.parent)
    read = run([gpuwise, "profile", "--format", "json", *sorted(traces.glob("*.json.gz"))], program.parent)
    findings = json.loads(read)["summary"]["findings"]
    for trace in traces.glob("*.json.gz"):
        trace.unlink()
    return findings[0] if findings else None


def patched(text, advice):
    """The program with the first piece of advice applied that is a change of code."""
    for sentence in advice:
        added = re.search(r"Add `([^`]+)` to `([\w.]+)\(…\)`", sentence)
        if added:
            what, call = added.groups()
            # Calls are found by their own name: programs import them as they like.
            name = call.rsplit(".", 1)[-1]
            return re.sub(r"\b%s\(" % name, "%s(%s, " % (name, what), text, count=1)
        replaced = re.search(r"Replace `([^`]+)` by `([^`]+)`", sentence)
        if replaced:
            return text.replace(replaced.group(1), replaced.group(2))
    return text


def holds(gpuwise, python, name, expected):
    """Whether a prediction came true, and what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file in (name, "timed.py"):
            (folder / file).write_text((HERE / file).read_text())
        program, cured = folder / name, folder / ("cured_" + name)
        finding = first_finding(gpuwise, python, program)
        if finding is None or finding["class"] != expected:
            sys.exit("%s: the first finding is %s, not %s" % (name, finding and finding["class"], expected))
        cured.write_text(patched(program.read_text(), finding["advice"]))
        if cured.read_text() == program.read_text():
            sys.exit("%s: its advice changes nothing: %s" % (name, finding["advice"]))
        before, after = timed(python, folder, program, cured)
        gained = 1 - after / before
        low, high = finding["gain"]["low"], finding["gain"]["high"]
        print("%s: %.2f ms a step, %.2f after the advice: gained %.0f %%, predicted %.0f to %.0f %%"
              % (name, before * 1e3, after * 1e3, gained * 100, low * 100, high * 100))
        return low <= gained <= high and gained > 0


def main():
    gpuwise, python = sys.argv[1:]
    for name, expected in PROGRAMS.items():
        if not any(holds(gpuwise, python, name, expected) for _ in range(TRIES)):
            sys.exit("%s: what was gained lies outside what was predicted" % name)


main()
