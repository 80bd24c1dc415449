"""Answers of training, memory, simulation and placement as typed objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from ._answers import Answer, Derivation, Estimate, Json, Price


def _known(data: Json, name: str) -> Estimate:
    estimate = Estimate.of(data[name])
    assert estimate is not None, name
    return estimate


@dataclass(frozen=True)
class TrainingPlan:
    """Machines and a layout that train a model: how much memory, how long, at what price."""

    gpu: str
    gpus: int
    framework: str
    #: Degrees of parallelism by name: ``tensor_parallel``, ``data_parallel`` and so on.
    layout: Mapping[str, Any]
    sharding: str
    micro_batch: int
    global_batch: int
    #: Bytes that the fullest GPU reserves.
    memory_bytes: Optional[Estimate]
    #: Bytes of a GPU that a job may fill.
    usable_bytes: int
    step_seconds: Estimate
    #: Seconds of a step by cause: ``matmuls``, ``rollout``, ``reference log-probs`` and so on.
    step_parts: Mapping[str, float]
    tokens_per_second_per_gpu: Estimate
    mfu: Optional[Estimate]
    #: Seconds of the whole run, failures included; ``None`` where the job has no number of tokens.
    run_seconds: Optional[Estimate]
    cost: Optional[Price]
    provider: Optional[str]
    basis: str
    bottleneck: str
    derivations: Sequence[Derivation] = field(repr=False)
    data: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, data: Json) -> TrainingPlan:
        setup, step, run, rental = data["setup"], data["step"], data["run"], data["rental"]
        return cls(
            gpu=data["gpu"],
            gpus=data["gpus"],
            framework=setup["framework"],
            layout=setup["layout"],
            sharding=setup["sharding"],
            micro_batch=setup["micro_batch"],
            global_batch=setup["global_batch"],
            memory_bytes=Estimate.of(data["memory"]["reserved_bytes"]),
            usable_bytes=data["usable_bytes"],
            step_seconds=_known(step, "seconds"),
            step_parts={part["cause"]: part["seconds"] for part in step["parts"]},
            tokens_per_second_per_gpu=_known(step, "tokens_per_second_per_gpu"),
            mfu=Estimate.of(step["mfu"]),
            run_seconds=_known(run, "total_seconds") if run else None,
            cost=Price.of(run["cost"]) if run else None,
            provider=rental["provider"] if rental else None,
            basis=data["basis"],
            bottleneck=data["bottleneck"],
            derivations=tuple(Derivation.of(one) for one in data["derivations"]),
            data=data,
        )


@dataclass(frozen=True)
class Training(Answer):
    """Ways to run a training job, ranked."""

    plans: Sequence[TrainingPlan] = ()

    @classmethod
    def of(cls, answer: Answer) -> Training:
        plans = tuple(TrainingPlan.of(one) for one in answer.data["plans"])
        return cls(answer.ok, answer.arguments, answer.data, answer.keep, plans=plans)

    @property
    def best(self) -> TrainingPlan:
        """The first of them. Raises LookupError where there is none."""
        if not self.plans:
            raise LookupError("nothing meets what is asked for; see .text for what is short")
        return self.plans[0]


@dataclass(frozen=True)
class DeviceMemory:
    """What fills the memory of a GPU, and whether what is asked for fits."""

    device: str
    fits: bool
    gpus: int
    layout: str
    weights: str
    kv_cache: str
    #: Requests of the asked length that fit at once.
    requests_at_once: float
    #: Bytes that are short on each GPU; 0 where it fits.
    short_bytes: int
    visible_bytes: int
    weight_bytes: int
    overhead_bytes: int
    kv_cache_bytes: int
    kv_cache_tokens: int
    #: What would make it fit, cheapest first.
    fixes: Sequence[str]
    derivation: Derivation = field(repr=False)
    data: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, data: Json) -> DeviceMemory:
        memory = data["memory"]
        return cls(
            device=memory["device"],
            fits=data["fits"],
            gpus=data["gpus"],
            layout=data["layout"],
            weights=data["weights"],
            kv_cache=data["kv_cache"],
            requests_at_once=data["requests_at_once"],
            short_bytes=data["short_bytes"],
            visible_bytes=memory["visible_bytes"],
            weight_bytes=memory["weight_bytes"],
            overhead_bytes=memory["overhead_bytes"],
            kv_cache_bytes=memory["kv_cache_bytes"],
            kv_cache_tokens=memory["kv_cache_tokens"],
            fixes=tuple(fix["what"] for fix in data["fixes"]),
            derivation=Derivation.of(data["derivation"]),
            data=data,
        )


@dataclass(frozen=True)
class Memory(Answer):
    """Memory of one GPU, or of several beside each other."""

    devices: Sequence[DeviceMemory] = ()

    @classmethod
    def of(cls, answer: Answer) -> Memory:
        devices = tuple(DeviceMemory.of(one) for one in answer.data["devices"])
        return cls(answer.ok, answer.arguments, answer.data, answer.keep, devices=devices)


@dataclass(frozen=True)
class Distribution:
    """A latency or length over requests, in seconds or tokens."""

    count: int
    mean: float
    minimum: float
    maximum: float
    #: By name: ``p50``, ``p95``.
    percentiles: Mapping[str, float]

    @classmethod
    def of(cls, data: Json) -> Distribution:
        return cls(
            count=data["count"],
            mean=data["mean"],
            minimum=data["minimum"],
            maximum=data["maximum"],
            percentiles={one["at"]: one["value"] for one in data["percentiles"]},
        )


@dataclass(frozen=True)
class Run:
    """One run: what users saw, and what it took."""

    #: Whether the SLO is kept; ``None`` where none is given.
    kept: Optional[bool]
    requests_per_second: float
    output_tokens_per_second: float
    completed: int
    #: Over all requests, by metric: ``ttft``, ``tpot``, ``end_to_end`` and so on.
    distributions: Mapping[str, Distribution]
    gpu_seconds: float
    notes: Sequence[str]
    data: Json = field(repr=False, compare=False)

    @property
    def ttft(self) -> Distribution:
        """Seconds to the first token."""
        return self.distributions["ttft"]

    @property
    def tpot(self) -> Distribution:
        """Seconds for each output token after the first."""
        return self.distributions["tpot"]

    @classmethod
    def of(cls, data: Json) -> Run:
        group = data["groups"][0]
        attainment, throughput = data["attainment"], data["throughput"]
        return cls(
            kept=attainment["kept"] if attainment else None,
            requests_per_second=throughput["requests_per_second"],
            output_tokens_per_second=throughput["output_tokens_per_second"],
            completed=group["outcomes"]["completed"],
            distributions={
                one["metric"]: Distribution.of(one["distribution"]) for one in group["distributions"]
            },
            gpu_seconds=data["spent"]["gpu_seconds"],
            notes=tuple(data["notes"]),
            data=data,
        )


@dataclass(frozen=True)
class Rung:
    """A load that was tried."""

    name: str
    load: float
    kept: Optional[bool]
    saturated: bool
    ttft_seconds: Optional[float]
    tpot_seconds: Optional[float]
    output_tokens_per_second: Optional[float]

    @classmethod
    def of(cls, data: Json) -> Rung:
        return cls(
            name=data["name"],
            load=data["load"],
            kept=data["kept"],
            saturated=data["saturated"],
            ttft_seconds=data["ttft_seconds"],
            tpot_seconds=data["tpot_seconds"],
            output_tokens_per_second=data["output_tokens_per_second"],
        )


@dataclass(frozen=True)
class Simulation(Answer):
    """Runs of a deployment under traffic, request by request."""

    runs: Sequence[Run] = ()

    @classmethod
    def of(cls, answer: Answer) -> Simulation:
        runs = tuple(Run.of(one) for one in answer.data["result"]["runs"])
        return cls(answer.ok, answer.arguments, answer.data, answer.keep, runs=runs)

    @property
    def run(self) -> Run:
        """The first of them."""
        return self.runs[0]


@dataclass(frozen=True)
class Validation(Simulation):
    """A deployment at light to heavy load, and where it breaks."""

    rungs: Sequence[Rung] = ()
    #: The largest load that keeps the SLO; ``None`` where none does.
    knee: Optional[float] = None

    @classmethod
    def of(cls, answer: Answer) -> Validation:
        result = answer.data["result"]
        runs = tuple(Run.of(one) for one in result["runs"])
        ladder = result["ladder"] or {"rungs": [], "knee": None}
        return cls(
            answer.ok,
            answer.arguments,
            answer.data,
            answer.keep,
            runs=runs,
            rungs=tuple(Rung.of(one) for one in ladder["rungs"]),
            knee=ladder["knee"]["load"] if ladder["knee"] else None,
        )


@dataclass(frozen=True)
class PlacedJob:
    """A job that starts, and where."""

    job: str
    place: str
    gpus: float
    data: Json = field(repr=False, compare=False)


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits, and why."""

    job: str
    why: str
    data: Json = field(repr=False, compare=False)


@dataclass(frozen=True)
class Placement(Answer):
    """Who runs where, and why others wait."""

    placed: Sequence[PlacedJob] = ()
    waiting: Sequence[WaitingJob] = ()

    @classmethod
    def of(cls, answer: Answer) -> Placement:
        placed = tuple(
            PlacedJob(one["job"], one["place"], one["gpus"], one) for one in answer.data["placed"]
        )
        waiting = tuple(WaitingJob(one["job"], one["why"], one) for one in answer.data["waiting"])
        return cls(answer.ok, answer.arguments, answer.data, answer.keep, placed=placed, waiting=waiting)
