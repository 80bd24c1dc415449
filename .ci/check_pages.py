"""Makes every page with the program and looks at it in Chromium: check_pages.py BINARY [--pictures DIR].

Each page at 420 and 1400 px, light and dark: nothing scrolls sideways, no script fails, no request
leaves it, no text of a picture is cut off or lies on another text or a mark, text can be read on its
ground, and what every page says stands on it. Profiles need sample data (GPUWISE_DATA).
"""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from chromium import Chromium, found

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTHS = (420, 1400)
# Of text that is read (WCAG 2, level AA).
CONTRAST = 4.5

FAILED = []

LLAMA = "meta-llama/Llama-3.1-70B-Instruct --rate 8 --isl 2000 --osl 300 --ttft p95:1s --tpot p95:40ms"
# A page's name, the command without --html, exit codes that are right, and what must stand on it.
ANSWERS = [
    ("plan", f"plan {LLAMA} --top 3 --save deployment.json", (0,), ["a month", "vllm serve"]),
    ("plan-crowded", "plan meta-llama/Llama-3.1-8B --rate 4 --isl 1000 --osl 200 --ttft p95:1s --tpot p95:50ms", (0,), []),
    ("plan-none", "plan meta-llama/Llama-3.1-405B-Instruct --rate 100 --isl 2000 --osl 300 --tpot p95:1ms", (1,), []),
    ("images", "plan black-forest-labs/FLUX.1-dev --images 2/s --size 1024 --steps 28 --latency p95:8s", (0,), ["a month"]),
    ("images-none", "plan black-forest-labs/FLUX.1-dev --images 2/s --latency p95:500ms --gpu H100,L40S", (1,), []),
    ("train", "train meta-llama/Llama-3.1-8B --method qlora --tokens 2e9 --within 3d --top 3", (0,), ["a month", "accelerate launch"]),
    ("train-large", "train meta-llama/Llama-3.1-70B --method full --gpus 64xH100 --seq 8192 --global-batch 1024 --tokens 10e9", (0,), []),
    ("table", "table --models 8b,70b,405b", (0,), ["25 % rule"]),
    ("tco", "tco deployment.json --growth 4%/month --horizon 36mo", (0,), ["What to buy by when"]),
    ("fleet", "fleet check fleet.toml --jobs jobs.toml", (0,), ["H100 SXM5 80GB", "Pending", "tune"]),
    ("fleet-slices", "fleet check cut.toml --jobs cut-jobs.toml", (0,), ["3g.40gb", "1g.10gb idle"]),
    ("place", "place fleet.toml jobs.toml", (0, 1), ["Pending, with the cheapest fix", "tune"]),
    ("simulate", "simulate deployment.json --rate 7 --requests 1500 --save run.json", (0, 1), []),
    ("calm", "simulate deployment.json --rate 5 --requests 300 --save calm.json", (0, 1), []),
    ("validate", "validate deployment.json --requests 300 --seeds 2", (0, 1), ["kept up to"]),
    ("compare", "compare run.json calm.json", (0, 1), []),
    ("audit", "audit usage.csv --end 2025-11-21 --price L40S=1.2USD --forget", (0,), ["a month"]),
    ("hang", "profile rank0.json rank1.json rank2.json rank3.json", (0, 1), ["Who was late"]),
    ("counters", "profile counters.csv", (0, 1), ["Kernels on their roofline"]),
]
# The same of profiles, by their place in the sample data.
PROFILES = [
    ("trace", "traces/tb_resnet50_nw4_a.json.gz", ["Timeline"]),
    ("ranks", "traces/dlrm_8rank", ["Ranks"]),
    ("snapshot", "memory_snapshots/wedsonlin_medium_512_training.pickle.gz", ["Memory over time"]),
    ("categories", "memory_snapshots/hta_memory_timeline.raw.gz", ["Memory over time"]),
    ("ncu", "ncu/superbench_cublaslt_cc100_details.csv", ["Kernels on their roofline"]),
    ("nsys", "nsys/mfu_2gpu_before.sqlite.gz", ["Timeline"]),
    ("jax", "xplane/tl_mi300_jax08_gemm.xplane.pb", ["Timeline"]),
    ("tpu", "xplane/xprof_tpu_inference_2.xplane.pb", ["Steps"]),
    ("flight", "nccl_flight/tutorial_sample.json", []),
]
PICTURES = [
    ("table.svg", "table --models 8b,70b,405b --svg table.svg"),
    ("tco.svg", "tco deployment.json --growth 4%/month --horizon 36mo --svg tco.svg"),
    ("fleet.svg", "fleet check fleet.toml --jobs jobs.toml --svg fleet.svg"),
    ("place.svg", "place fleet.toml jobs.toml --svg place.svg"),
]

LOOK = r"""(() => {
  const bad = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) bad.push(`scrolls sideways: ${wide} px`);
  const hit = (a, b, x, y) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > x
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > y;
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const name = svg.querySelector('title')?.textContent;
    const texts = [...svg.querySelectorAll('text')].map((text) => ({ said: text.textContent, box: text.getBoundingClientRect() }))
      .filter((text) => text.box.width);
    const marks = [...svg.querySelectorAll('circle')].map((mark) => mark.getBoundingClientRect());
    for (const [at, { said, box }] of texts.entries()) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        bad.push(`${name}: "${said}" is cut off`);
      // A box of text has room above and below its letters.
      for (const other of texts.slice(0, at))
        if (hit(box, other.box, 1, box.height * .25)) bad.push(`${name}: "${said}" on "${other.said}"`);
      if (marks.some((mark) => hit(box, mark, 1, box.height * .2))) bad.push(`${name}: "${said}" on a mark`);
    }
  }
  return bad; })()"""

READ = r"""(() => {
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => { const part = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
    return .2126 * part(r) + .7152 * part(g) + .0722 * part(b); };
  const ground = (node) => { for (let at = node; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor); if (colour.length === 3 || colour[3] > .99) return colour; }
    return [255, 255, 255]; };
  const bad = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const owner = node.parentElement;
    if (!node.textContent.trim() || owner.closest('svg,script,style,canvas') || !owner.getClientRects().length) continue;
    const [ink, paper] = [light(parse(getComputedStyle(owner).color)), light(ground(owner))];
    const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    if (ratio < LIMIT) bad.add(`${owner.tagName.toLowerCase()}.${owner.className}: contrast ${ratio.toFixed(1)}: ${node.textContent.trim().slice(0, 30)}`);
  }
  return [...bad].slice(0, 5); })()""".replace("LIMIT", str(CONTRAST))


def fail(what):
    print("FAILED  " + what, flush=True)
    FAILED.append(what)


def flight(rank):
    """A rank's dump of a flight recorder: rank 2 never comes to the second collective."""
    def entry(number, state):
        return {
            "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce", "time_created_ns": 10**18 + number,
            "input_sizes": [[1024]], "input_dtypes": ["Float"], "output_sizes": [[1024]], "output_dtypes": ["Float"],
            "state": state, "time_discovered_started_ns": 10**18 + number, "time_discovered_completed_ns": None,
            "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
            "frames": [{"name": "step", "filename": "train.py", "line": 80 + number}],
        }
    entries = [entry(1, "completed")] + ([] if rank == 2 else [entry(2, "started")])
    return {
        "version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {"0": {"last_enqueued_collective": len(entries), "last_started_collective": len(entries), "last_completed_collective": 1}},
        "rank": rank, "entries": entries,
    }


def counters(path):
    """Counters of twelve kernels with names as C++ has them, some of them alike."""
    metrics = [("gpu__time_duration.sum", "ns"), ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
               ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%")]
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
            "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    name = ("void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<c10::BFloat16>, "
            "std::array<char *, (unsigned long)3>>(int, T2, T3)")
    with open(path, "w", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerow(head)
        for at in range(12):
            values = (10_000 * (at + 1), 20 + at * 2 % 7, 21 + at * 3 % 11)
            for (metric, unit), value in zip(metrics, values):
                out.writerow([at, 1, "python", "host", name.replace("add", f"op{at}"), 1, 7, "(128, 1, 1)", "(1024, 1, 1)",
                              0, "9.0", "Command line profiler metrics", metric, unit, value])


def inputs(place):
    for path in (ROOT / "docs/guides/files").iterdir():
        if path.is_file():
            shutil.copy(path, place)
    for rank in range(4):
        (place / f"rank{rank}.json").write_text(json.dumps(flight(rank)))
    counters(place / "counters.csv")
    (place / "cut.toml").write_text(
        '[[rack]]\nname = "r1"\n\n[[node]]\nname = "gpu-{1..2}"\ngpus = "8xH100"\ncpu = 112\nmemory = "2TiB"\nrack = "r1"\n'
        'mig = { 7 = ["3g.40gb@4", "1g.10gb@0"] }\n\n[[node]]\nname = "odd"\ngpus = ["2xL40S", "2xA100-SXM4-80GB"]\ncpu = 64\n'
        'memory = "512GiB"\nrack = "r1"\nhealth = "draining"\ngpu_health = { 1 = "xid 79" }\n')
    (place / "cut-jobs.toml").write_text(
        '[[job]]\nname = "notebook"\ntenant = "research"\nslice = "3g.40gb"\ncpu = 4\nmemory = "16GiB"\n')


def make(binary, place, name, command, codes):
    page = place / f"{name}.html"
    words = [binary, "--offline", *command.split(), *([] if command.endswith(".svg") else ["--html", str(page)])]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True)
    if done.returncode not in codes:
        fail(f"{name}: exit code {done.returncode}: {done.stderr.strip()[:300]}")
    return page


def check(browser, page, said, pictures):
    text = page.read_text()
    seen = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)
    for words in said:
        if words not in seen:
            fail(f"{page.name}: {words!r} does not stand on it")
    if page.suffix == ".html" and not re.search(r"<footer>.*gpuwise [\d.]+, \d{4}-\d\d-\d\d: gpuwise ", seen, re.S):
        fail(f"{page.name}: its foot does not say by what, when and with which command it was made")
    for dark in (False, True):
        for width in WIDTHS:
            where = f"{page.name} at {width} px, {'dark' if dark else 'light'}"
            browser.open(page.as_uri(), width=width, dark=dark)
            if "timeline" in text:
                browser.wait("!document.querySelector('.tl') || !!document.querySelector('.tl.live')", limit=120)
            for bad in dict.fromkeys(browser.evaluate(LOOK)):
                fail(f"{where}: {bad}")
            if page.suffix == ".html":
                for bad in browser.evaluate(READ):
                    fail(f"{where}: {bad}")
            for error in browser.errors():
                fail(f"{where}: {error}")
            if pictures:
                browser.picture(f"{pictures}/{page.stem}-{'dark' if dark else 'light'}-{width}.png")


def main():
    path = found()
    if not path:
        print("SKIPPED: no Chromium here")
        return 77
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    pictures = sys.argv[3] if len(sys.argv) > 3 else None
    asked = [(name, command, codes, said) for name, command, codes, said in ANSWERS]
    data = pathlib.Path(os.environ.get("GPUWISE_DATA", "/nowhere")) / "profile"
    if data.is_dir():
        asked += [(name, f"profile {data / where}", (0, 1), said) for name, where, said in PROFILES]
    else:
        print("no sample data (GPUWISE_DATA): no pages of real profiles")
    with tempfile.TemporaryDirectory(prefix="gpuwise-pages-") as place:
        place = pathlib.Path(place)
        inputs(place)
        browser = Chromium(path)
        try:
            pages = [(make(binary, place, name, command, codes), said) for name, command, codes, said in asked]
            for name, command in PICTURES:
                make(binary, place, name, command, (0, 1))
                pages.append((place / name, []))
            for page, said in pages:
                if page.exists():
                    check(browser, page, said, pictures)
        finally:
            browser.close()
    print(f"{len(pages)} pages and pictures, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
