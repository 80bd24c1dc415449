"""Builds the wheel: maturin makes the Python module, and the binary goes in beside it.

maturin builds either a module or a binary (PyO3/maturin#368), so the binary is built first, with the
same profile and features, and put where maturin takes scripts from. The setting `profile` names another
profile than that of people's wheels (`pip wheel . -C profile=dev`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = [
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent
PROFILE = "dist"
FEATURES = "postgres,cuda,kubernetes"
SCRIPTS = ROOT / "python" / "gpuwise.data" / "scripts"


def _binary(profile: str) -> None:
    command = ["cargo", "build", "--locked", "--profile", profile, "-p", "gpuwise", "-p", "gpuwise-py"]
    command += ["--features", ",".join(f"gpuwise/{name}" for name in FEATURES.split(","))]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    name = "gpuwise.exe" if sys.platform == "win32" else "gpuwise"
    shutil.rmtree(SCRIPTS.parent, ignore_errors=True)
    SCRIPTS.mkdir(parents=True)
    # Cargo puts what its profile `dev` builds elsewhere than its name says.
    shutil.copy2(target / ("debug" if profile == "dev" else profile) / name, SCRIPTS / name)


def prepare_metadata_for_build_wheel(directory: str, settings: Any = None) -> str:
    """Name, version and requirements, which pip asks for first: maturin wants the data folder to be there."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    settings = {name: value for name, value in (settings or {}).items() if name != "profile"}
    return str(maturin.prepare_metadata_for_build_wheel(directory, settings))


def build_wheel(directory: str, settings: Any = None, metadata: Any = None) -> str:
    """A wheel with both."""
    settings = dict(settings or {})
    profile = settings.pop("profile", PROFILE)
    _binary(profile)
    settings["build-args"] = f"--profile {profile} " + settings.get("build-args", "")
    return str(maturin.build_wheel(directory, settings, metadata))


def build_sdist(directory: str, settings: Any = None) -> str:
    """The source of both."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return str(maturin.build_sdist(directory, settings))
