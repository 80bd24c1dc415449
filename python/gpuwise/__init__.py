"""gpuwise: from a model and an SLO to the GPUs it needs, and no more.

Every function is a command of the command line; keyword arguments are its flags, with ``_`` for ``-``:

>>> import gpuwise
>>> plan = gpuwise.plan("meta-llama/Llama-3.1-8B", rate=4, isl=1000, osl=200, ttft="p95:1s")
>>> plan.best.ttft.high < 1.0
True

A flag that may be given several times takes a list, a switch takes ``True``. What a flag takes is said by
``gpuwise help COMMAND``.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Iterable, Union

from ._answers import Answer, Deployment, Derivation, Estimate, Plan, Price, parsed
from ._results import (
    DeviceMemory,
    Distribution,
    Memory,
    PlacedJob,
    Placement,
    Run,
    Rung,
    Simulation,
    Training,
    TrainingPlan,
    Validation,
    WaitingJob,
)
from ._gpuwise import GpuwiseError, __version__
from ._gpuwise import ask as _native

__all__ = [
    "Answer",
    "Deployment",
    "Derivation",
    "DeviceMemory",
    "Distribution",
    "Estimate",
    "GpuwiseError",
    "Memory",
    "PlacedJob",
    "Placement",
    "Plan",
    "Price",
    "Run",
    "Rung",
    "Simulation",
    "Training",
    "TrainingPlan",
    "Validation",
    "WaitingJob",
    "__version__",
    "ask",
    "memory",
    "place",
    "plan",
    "predict",
    "simulate",
    "train",
    "validate",
]

#: What a flag takes.
Scalar = Union[str, int, float, bool, None, "os.PathLike[str]"]
Value = Union[Scalar, Iterable[Scalar]]


def _flags(settings: dict[str, Value]) -> list[str]:
    flags: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.strip("_").replace("_", "-")
        several = isinstance(value, Iterable) and not isinstance(value, (str, os.PathLike))
        for one in value if several else [value]:  # type: ignore[union-attr]
            if one is True:
                flags.append(flag)
            elif one is not None and one is not False:
                text = os.fspath(one) if isinstance(one, os.PathLike) else str(one)
                flags.append(f"{flag}={text}")
    return flags


def _ask(arguments: list[str]) -> tuple[bool, str]:
    return _native(arguments)


def _arguments(command: str, names: Iterable[object], settings: dict[str, Value]) -> list[str]:
    return [*command.split(), *(str(name) for name in names), *_flags(settings)]


def ask(command: str, *names: object, **settings: Value) -> Answer:
    """Ask any command: ``ask("memory", "meta-llama/Llama-3.1-8B", gpu="L4")``."""
    arguments = _arguments(command, names, settings)
    ok, text = _ask([*arguments, "--format=json"])
    return Answer(ok, arguments, parsed(text))


def plan(
    model: str,
    *,
    rate: Value = None,
    concurrency: Value = None,
    isl: Value = None,
    osl: Value = None,
    ttft: Value = None,
    tpot: Value = None,
    gpu: Value = None,
    engine: Value = None,
    precision: Value = None,
    **settings: Value,
) -> Plan:
    """Plan the serving of a language model.

    ``rate`` is requests a second (or ``"600/min"``), ``concurrency`` concurrent requests in its place;
    ``isl`` and ``osl`` are tokens of a prompt and of an answer; ``ttft`` and ``tpot`` are targets such
    as ``"p95:1s"``. That nothing keeps them is an answer: ``Plan.ok``.
    """
    own: dict[str, Value] = {
        "rate": rate,
        "concurrency": concurrency,
        "isl": isl,
        "osl": osl,
        "ttft": ttft,
        "tpot": tpot,
        "gpu": gpu,
        "engine": engine,
        "precision": precision,
    }
    arguments = _arguments("plan", [model], {**own, **settings})
    ok, text = _ask([*arguments, "--explain", "--format=json"])
    return Plan.of(ok, arguments, parsed(text))


def train(model: str, **settings: Value) -> Training:
    """Plan a training job: ``train("meta-llama/Llama-3.1-8B", gpus="8xH100", tokens="1B")``."""
    return Training.of(ask("train", model, **settings))


def memory(model: str, **settings: Value) -> Memory:
    """What fills a GPU's memory, and whether a model fits: ``memory(MODEL, gpu="L4")``."""
    return Memory.of(ask("memory", model, **settings))


def _tried(command: str, deployment: Union[str, os.PathLike[str], Plan], settings: dict[str, Value]) -> Answer:
    if not isinstance(deployment, Plan):
        return ask(command, os.fspath(deployment), **settings)
    folder = tempfile.TemporaryDirectory(prefix="gpuwise-")
    file = Path(folder.name) / "deployment.json"
    deployment.save(str(file))
    return replace(ask(command, str(file), **settings), keep=folder)


def simulate(deployment: Union[str, os.PathLike[str], Plan], **settings: Value) -> Simulation:
    """Run a plan, or a deployment that was saved, under traffic, request by request."""
    return Simulation.of(_tried("simulate", deployment, settings))


def validate(deployment: Union[str, os.PathLike[str], Plan], **settings: Value) -> Validation:
    """Try a plan, or a deployment that was saved, at light to heavy load; find where it breaks."""
    return Validation.of(_tried("validate", deployment, settings))


def place(fleet: Union[str, os.PathLike[str]], jobs: Union[str, os.PathLike[str]], **settings: Value) -> Placement:
    """Decide who runs where on a fleet, and of those who wait why and what would help."""
    return Placement.of(ask("place", os.fspath(fleet), os.fspath(jobs), **settings))


def predict(questions: Union[str, os.PathLike[str]], **settings: Value) -> Answer:
    """Answer a table of questions, from a CSV file."""
    return ask("predict", os.fspath(questions), **settings)
