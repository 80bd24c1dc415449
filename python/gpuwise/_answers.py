"""Answers as objects: figures with their ranges, and how each came about."""

from __future__ import annotations

import html
import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

if TYPE_CHECKING:
    import pandas

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 80 % range."""

    value: float
    low: float
    high: float
    #: The statistic, such as ``p95`` or ``mean``, where there is more than one.
    at: Optional[str] = None

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        at = f"{self.at} " if self.at else ""
        return f"{at}{self.value:.4g} ({self.low:.4g}–{self.high:.4g})"

    @classmethod
    def of(cls, data: Optional[Json]) -> Optional[Estimate]:
        if data is None:
            return None
        return cls(data["value"], data["low"], data["high"], data.get("at"))


@dataclass(frozen=True)
class Price:
    """Money: how much of which currency, for what, and as of which day."""

    amount: float
    currency: str
    #: ``hour``, ``month``, ``year``, ``million tokens``, ``unit``, or ``all`` for all of it.
    per: str
    #: The day of the price list, where it says one.
    priced_at: Optional[str] = None
    #: The 80 % range, where it has one.
    low: Optional[float] = None
    high: Optional[float] = None

    def __str__(self) -> str:
        per = {"hour": "/h", "all": ""}.get(self.per, f" per {self.per}")
        return f"{self.amount:.2f} {self.currency}{per}"

    @classmethod
    def of(cls, data: Optional[Json]) -> Optional[Price]:
        if data is None:
            return None
        ends = data.get("low"), data.get("high")
        return cls(data["amount"], data["currency"], data["per"], data["priced_at"], *ends)


@dataclass(frozen=True)
class Derivation:
    """How a figure came about: its formula, and the figures that went into it."""

    name: str
    value: str
    formula: str
    source: str
    inputs: Sequence[Derivation] = ()

    @classmethod
    def of(cls, data: Json) -> Derivation:
        inputs = tuple(cls.of(one) for one in data["inputs"])
        return cls(data["name"], data["value"], data["formula"], data["source"], inputs)

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> list[str]:
        formula = f" = {self.formula}" if self.formula else ""
        source = f" [{self.source}]" if self.source else ""
        lines = [f"{'  ' * depth}{self.name}: {self.value}{formula}{source}"]
        for one in self.inputs:
            lines += one._lines(depth + 1)
        return lines


@dataclass(frozen=True)
class Deployment:
    """GPUs that serve a model: which, how many, in which layout, how fast, at what price."""

    gpu: str
    #: The MIG slice of it, where it is one.
    slice: Optional[str]
    gpu_count: int
    layout: str
    engine: str
    weights: str
    kv_cache: str
    #: Seconds to the first token.
    ttft: Estimate
    #: Seconds for each output token after the first.
    tpot: Estimate
    #: Seconds from request to last token.
    end_to_end: Estimate
    requests_per_second: Estimate
    output_tokens_per_second: Estimate
    #: Share of the load that it sustains.
    load: float
    power_watts: Optional[Estimate]
    price: Optional[Price]
    provider: Optional[str]
    #: On what the figures rest: exact, measured nearby, calibrated, transferred, extrapolated.
    basis: str
    bottleneck: str
    derivations: Sequence[Derivation] = field(repr=False)
    #: Everything, as the command line writes it with ``--format json``.
    data: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, data: Json) -> Deployment:
        figures = data["figures"]

        def known(name: str) -> Estimate:
            estimate = Estimate.of(figures[name])
            assert estimate is not None, name
            return estimate

        rental = data["rental"]
        return cls(
            gpu=data["gpu"],
            slice=data["slice"],
            gpu_count=data["gpu_count"],
            layout=data["layout"]["name"],
            engine=data["engine"],
            weights=data["weights"],
            kv_cache=data["kv_cache"],
            ttft=known("ttft_seconds"),
            tpot=known("tpot_seconds"),
            end_to_end=known("end_to_end_seconds"),
            requests_per_second=known("requests_per_second"),
            output_tokens_per_second=known("output_tokens_per_second"),
            load=figures["load"],
            power_watts=Estimate.of(figures["power_watts"]),
            price=Price.of(data["cost"]["price_per_hour"]),
            provider=rental["provider"] if rental else None,
            basis=data["basis"],
            bottleneck=data["bottleneck"],
            derivations=tuple(Derivation.of(one) for one in data["derivations"]),
            data=data,
        )

    def explain(self) -> str:
        """How every figure came about, as an indented text."""
        return "\n".join(str(one) for one in self.derivations)

    def __str__(self) -> str:
        what = f"{self.gpu} {self.slice}" if self.slice else self.gpu
        return f"{self.gpu_count} × {what}, {self.layout}: {self.price or 'price unknown'}"


@dataclass(frozen=True)
class Answer:
    """An answer in all its forms."""

    #: Whether the answer is yes: feasible, kept, placed.
    ok: bool
    #: The command and its flags.
    arguments: Sequence[str] = field(repr=False)
    #: As the command line writes it with ``--format json``.
    data: Any = field(repr=False)
    #: What has to last as long as the answer: a folder of files that it was asked of.
    keep: Any = field(default=None, repr=False, compare=False)

    def _form(self, form: str) -> str:
        from . import _ask

        return _ask([*self.arguments, f"--format={form}"])[1]

    @property
    def text(self) -> str:
        """As a terminal shows it."""
        return self._form("table")

    @property
    def csv(self) -> str:
        """As CSV."""
        return self._form("csv")

    @property
    def markdown(self) -> str:
        """As Markdown."""
        return self._form("md")

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of the CSV form as a data frame; pandas must be installed."""
        import pandas

        return pandas.read_csv(io.StringIO(self.csv))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"

    def __str__(self) -> str:
        return self.text


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def cells(tag: str, values: Sequence[object]) -> str:
        shown = (html.escape("–" if value is None else str(value)) for value in values)
        return "<tr>" + "".join(f"<{tag}>{value}</{tag}>" for value in shown) + "</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f"<table><thead>{cells('th', columns)}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Plan(Answer):
    """Deployments that keep what is asked for, ranked."""

    deployments: Sequence[Deployment] = ()

    @classmethod
    def of(cls, ok: bool, arguments: Sequence[str], data: Json) -> Plan:
        deployments = tuple(Deployment.of(one) for one in data["deployments"])
        return cls(ok, arguments, data, deployments=deployments)

    @property
    def best(self) -> Deployment:
        """The first of them. Raises LookupError where there is none."""
        if not self.deployments:
            raise LookupError("nothing keeps what is asked for; see .text for what is short")
        return self.deployments[0]

    @property
    def notes(self) -> Sequence[str]:
        """What was assumed."""
        return tuple(self.data["notes"])

    def save(self, path: str, pick: int = 1) -> None:
        """Save a deployment as the document that ``simulate`` and ``validate`` read."""
        from . import _ask

        _ask([*self.arguments, f"--save={path}", f"--pick={pick}"])

    def report(self, path: str) -> None:
        """Write the report as one self-contained HTML page."""
        from . import _ask

        _ask([*self.arguments, f"--html={path}"])

    def launch(self, form: str = "vllm", pick: int = 1) -> str:
        """The command or manifest that starts a deployment."""
        from . import _ask

        return _ask([*self.arguments, f"--emit={form}", f"--pick={pick}"])[1]

    def _repr_html_(self) -> str:
        def ms(estimate: Estimate) -> str:
            value, low, high = (x * 1e3 for x in (estimate.value, estimate.low, estimate.high))
            return f"{value:.3g} ({low:.3g}–{high:.3g}) ms"

        rows = [
            (
                f"{one.gpu_count} × {one.gpu}" + (f" {one.slice}" if one.slice else ""),
                one.layout,
                f"{one.weights}/{one.kv_cache}",
                ms(one.ttft),
                ms(one.tpot),
                f"{one.load:.0%}",
                one.price,
                one.provider,
                one.basis,
            )
            for one in self.deployments
        ]
        first = self.deployments[0] if self.deployments else None
        at = [f" {x.at}" if first and x.at else "" for x in ([first.ttft, first.tpot] if first else [])]
        ttft, tpot = at or ("", "")
        columns = ["GPUs", "layout", "weights/KV", f"TTFT{ttft}", f"TPOT{tpot}"]
        return _table([*columns, "load", "price", "provider", "basis"], rows)


def parsed(text: str) -> Any:
    """A JSON document; of several lines, each one."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
