"""The package as its users see it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import gpuwise
import pytest

MODEL = "meta-llama/Llama-3.1-8B"
FILES = Path(__file__).parents[2] / "docs" / "guides" / "files"


@pytest.fixture(scope="module")
def plan() -> gpuwise.Plan:
    return gpuwise.plan(
        MODEL, rate=4, isl=1000, osl=200, ttft="p95:1s", gpu=["H100", "L40S"], offline=True
    )


def test_a_plan_has_figures_with_ranges_and_derivations(plan: gpuwise.Plan) -> None:
    best = plan.best
    assert plan.ok and len(plan.deployments) >= 2
    assert best.ttft.at == "p95" and best.ttft.low <= best.ttft.value <= best.ttft.high
    assert float(best.ttft) < 1.0
    assert best.price is not None and best.price.currency == "USD"
    assert best.price.per == "hour" and str(best.price).endswith("USD/h")
    assert best.basis in {"calibrated", "transferred"}
    text = best.explain()
    assert "TTFT" in text and "\n  " in text
    assert best.derivations[0].inputs


def test_it_is_the_answer_of_the_command_line(plan: gpuwise.Plan) -> None:
    binary = shutil.which("gpuwise")
    assert binary, "the wheel brings the binary"
    shown = subprocess.run(
        [binary, *plan.arguments], capture_output=True, text=True, check=True, env={"COLUMNS": "100"}
    )
    assert shown.stdout == plan.text


def test_a_plan_is_shown_saved_and_launched(plan: gpuwise.Plan, tmp_path: Path) -> None:
    page = plan._repr_html_()
    assert page.startswith("<table>") and "TTFT p95" in page and "L40S" in page
    saved = tmp_path / "deployment.json"
    plan.save(str(saved))
    assert "gpuwise.deployment/v1" in saved.read_text()
    report = tmp_path / "report.html"
    plan.report(str(report))
    assert report.read_text().startswith("<!")
    assert f"vllm serve {MODEL}" in plan.launch("vllm")


def test_a_plan_is_simulated_and_validated(plan: gpuwise.Plan) -> None:
    run = gpuwise.simulate(plan, requests=200)
    assert run.ok and run.data["schema"] == "gpuwise.run/v1"
    assert run.run.kept and run.run.completed > 0
    assert run.run.ttft.percentiles["p50"] <= run.run.ttft.percentiles["p95"] <= run.run.ttft.maximum
    again = gpuwise.simulate(plan, requests=200)
    assert run.data == again.data
    tried = gpuwise.validate(plan, requests=100, seeds=1)
    assert tried.text[:1] in "✓✗"
    assert tried.rungs and all(rung.load > 0 for rung in tried.rungs)
    assert tried.knee is not None and tried.knee > 0


def test_rows_become_a_data_frame(plan: gpuwise.Plan) -> None:
    pandas = pytest.importorskip("pandas")
    frame = plan.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(plan.deployments)


def test_that_nothing_fits_is_an_answer() -> None:
    none = gpuwise.plan(MODEL, rate=4, isl=1000, osl=200, ttft="p95:1ms", gpu="L4", offline=True)
    assert not none.ok and not none.deployments
    with pytest.raises(LookupError, match="nothing keeps"):
        none.best


def test_errors_are_exceptions_with_hints() -> None:
    with pytest.raises(gpuwise.GpuwiseError, match="H1000") as caught:
        gpuwise.plan(MODEL, rate=4, isl=1000, osl=200, gpu="H1000", offline=True)
    assert caught.value.hints
    with pytest.raises(gpuwise.GpuwiseError, match="--tftt") as caught:
        gpuwise.plan(MODEL, tftt="p95:1s", offline=True)
    assert any("ttft" in hint for hint in caught.value.hints)


def test_every_command_is_reached() -> None:
    fits = gpuwise.memory(MODEL, gpu="L4", context=4096, offline=True)
    assert fits.ok and fits.devices[0].fits and fits.devices[0].weight_bytes > 0
    assert "cache tokens" in str(fits.devices[0].derivation)
    placed = gpuwise.place(FILES / "fleet.toml", FILES / "jobs.toml", offline=True)
    assert not placed.ok and placed.waiting[0].why and placed.placed[0].gpus > 0
    job = gpuwise.train(MODEL, gpus="8xH100", tokens="1B", offline=True)
    assert job.ok and job.best.gpus == 8 and job.best.run_seconds is not None
    assert job.best.cost is None or job.best.cost.per == "all"
    rollouts = gpuwise.train(
        MODEL, method="grpo-lora", gpus="8xH100", num_generations=4, vllm_enable_sleep_mode=True, offline=True
    ).best
    assert 0 < rollouts.step_parts["rollout"] < rollouts.step_seconds.value
    assert rollouts.data["setup"]["alignment"]["generations"] == 4
    gpus = gpuwise.ask("gpus", "H100", offline=True)
    assert any(row["gpu"] == "H100 SXM5 80GB" for row in gpus.data["rows"])
    assert "| " in gpus.markdown and "gpu" in gpus.csv
