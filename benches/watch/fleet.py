"""Serves dcgm-exporter pages of a made-up fleet, and writes a Prometheus configuration that scrapes them.

    python3 fleet.py --gpus 10000 --port 9500 --config prometheus.yml
    prometheus --config.file prometheus.yml --storage.tsdb.path data --web.listen-address 127.0.0.1:9491

Values are drawn by seed and move with time. Some GPUs are in trouble: what and which is printed, so that
`gpuwise watch` can be held against it.
"""

import argparse
import http.server
import random
import time

NODE = 8
PER_PAGE = 500
METRICS = [
    ("DCGM_FI_DEV_GPU_UTIL", "gauge"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "gauge"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge"),
    ("DCGM_FI_DEV_FB_USED", "gauge"),
    ("DCGM_FI_DEV_FB_FREE", "gauge"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge"),
    ("DCGM_FI_DEV_SM_CLOCK", "gauge"),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge"),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge"),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge"),
]


class Gpu:
    def __init__(self, number, seed):
        draw = random.Random(f"{seed} {number}")
        host, index = number // NODE, number % NODE
        self.labels = (
            f'gpu="{index}",UUID="GPU-{number:08x}-0000-0000-0000-000000000000",pci_bus_id="00000000:{index:02X}:00.0",'
            f'device="nvidia{index}",modelName="NVIDIA H100 80GB HBM3",Hostname="node{host:05d}",'
            f'DCGM_FI_DRIVER_VERSION="590.48.01",namespace="team-{number % 37}",pod="job-{number}-0",container="main"'
        )
        self.use = draw.uniform(0.3, 0.95)
        self.memory = draw.uniform(20000, 76000)
        self.trouble = draw.choices(["", "heat", "xid", "idle"], weights=[970, 10, 10, 10])[0]
        self.draw = draw

    def values(self):
        use = 0.0 if self.trouble == "idle" else min(1.0, max(0.0, self.use + self.draw.gauss(0, 0.03)))
        hot = self.trouble == "heat"
        return [
            round(use * 100), f"{use:.4f}", f"{use * 0.9:.4f}", f"{use * 0.5:.4f}", f"{use * 0.6:.4f}",
            f"{use * 0.5:.4f}", round(self.memory), round(81000 - self.memory), f"{90 + 600 * use:.2f}",
            88 if hot else 55, 1400 if hot else 1980, 64 if hot else 0,
            79 if self.trouble == "xid" else 0, 0,
        ]


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--gpus", type=int, default=10000)
    flags.add_argument("--port", type=int, default=9500)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--interval", default="15s")
    flags.add_argument("--config")
    args = flags.parse_args()
    gpus = [Gpu(number, args.seed) for number in range(args.gpus)]
    pages = [gpus[start : start + PER_PAGE] for start in range(0, len(gpus), PER_PAGE)]
    for trouble in ("heat", "xid", "idle"):
        print(trouble, sum(gpu.trouble == trouble for gpu in gpus), flush=True)
    if args.config:
        with open(args.config, "w") as out:
            out.write(f"global: {{scrape_interval: {args.interval}, scrape_timeout: {args.interval}}}\nscrape_configs:\n")
            for number in range(len(pages)):
                out.write(
                    f"  - {{job_name: 'page{number}', honor_labels: true, metrics_path: '/page/{number}', "
                    f"static_configs: [{{targets: ['127.0.0.1:{args.port}']}}]}}\n"
                )

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages[int(self.path.rsplit("/", 1)[-1])]
            rows = [(gpu.labels, gpu.values()) for gpu in page]
            lines = []
            for place, (name, kind) in enumerate(METRICS):
                lines.append(f"# TYPE {name} {kind}")
                lines.extend(f"{name}{{{labels}}} {values[place]}" for labels, values in rows)
            body = ("\n".join(lines) + "\n").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    print(f"{args.gpus} GPUs on {len(pages)} pages, {time.strftime('%H:%M:%S')}", flush=True)
    http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
