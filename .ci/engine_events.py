"""Engines that publish events of their KV caches, as vLLM's `vllm/distributed/kv_events.py` defines them.

Written from the published structures with what publishes them there (msgspec, pyzmq), and with nothing of ours.
"""

import collections
import http.server
import json
import threading
import time

import msgspec
import zmq

BLOCK = 16


class BlockStored(msgspec.Struct, omit_defaults=True, tag=True):
    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None
    lora_name: str | None = None


class BlockRemoved(msgspec.Struct, omit_defaults=True, tag=True):
    block_hashes: list[int | bytes]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, omit_defaults=True, tag=True):
    pass


class Batch(msgspec.Struct, omit_defaults=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


class OldStored(BlockStored, array_like=True, tag="BlockStored"):
    pass


class OldRemoved(BlockRemoved, array_like=True, tag="BlockRemoved"):
    pass


class OldBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[OldStored | OldRemoved]
    data_parallel_rank: int | None = None


def tokens_of(text):
    """A tokenizer: four bytes are a token."""
    data = text.encode()
    return [int.from_bytes(data[at:at + 4], "big") % 128_000 for at in range(0, len(data), 4)]


class Engine:
    """Answers requests, counts them, and says at `port + 1000` what it holds; `port + 2000` says it again."""

    def __init__(self, port, old=False):
        self.port, self.old, self.served, self.asked = port, old, 0, 0
        self.number, self.kept = 0, collections.deque(maxlen=1000)
        context = zmq.Context.instance()
        self.publisher = context.socket(zmq.PUB)
        self.publisher.bind(f"tcp://127.0.0.1:{port + 1000}")
        self.replay = context.socket(zmq.ROUTER)
        self.replay.bind(f"tcp://127.0.0.1:{port + 2000}")
        threading.Thread(target=self.replays, daemon=True).start()
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, text):
                self.send_response(200)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def do_GET(self):
                self.answer("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.1\n")

            def body(self):
                """Whole, or in pieces with their lengths before them."""
                if length := self.headers["content-length"]:
                    return self.rfile.read(int(length))
                text = b""
                while size := int(self.rfile.readline(), 16):
                    text += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return text

            def do_POST(self):
                body = json.loads(self.body())
                text = body["messages"][0]["content"]
                if self.path == "/tokenize":
                    engine.asked += 1
                    tokens = tokens_of(text)
                    self.answer(json.dumps({"tokens": tokens, "count": len(tokens), "max_model_len": 1 << 20}))
                else:
                    engine.served += 1
                    self.answer(json.dumps({"objective": [v for k, v in self.headers.items() if "inference" in k]}))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def replays(self):
        while True:
            who, _, first = self.replay.recv_multipart()
            for number, payload in list(self.kept):
                if number >= int.from_bytes(first, "big"):
                    self.replay.send_multipart((who, b"", number.to_bytes(8, "big"), payload))
            self.replay.send_multipart((who, b"", (-1).to_bytes(8, "big", signed=True), b""))

    def publish(self, *events, live=True, keep=True):
        """The next batch; who listens does not get one that is not `live`, and it is had again if it is kept."""
        batch = (OldBatch if self.old else Batch)(time.time(), list(events), 0)
        payload, number = msgspec.msgpack.encode(batch), self.number
        self.number += 1
        if keep:
            self.kept.append((number, payload))
        if live:
            self.publisher.send_multipart((b"", number.to_bytes(8, "big"), payload))

    def hashes(self, text):
        """Of whole blocks, each by all that comes before it: 32 bytes, or numbers in the old form."""
        tokens, sums, found = tokens_of(text), 0, []
        for at in range(0, len(tokens) - BLOCK + 1, BLOCK):
            sums = hash((sums, tuple(tokens[at:at + BLOCK])))
            found.append(sums if self.old else sums.to_bytes(32, "big", signed=True))
        return found

    def store(self, text, **how):
        found = self.hashes(text)
        tokens = tokens_of(text)[:len(found) * BLOCK]
        kind = OldStored if self.old else BlockStored
        half = len(found) // 2
        self.publish(kind(found[:half], None, tokens[:half * BLOCK], BLOCK, None, "GPU"), **how)
        self.publish(kind(found[half:], found[half - 1], tokens[half * BLOCK:], BLOCK, None, "GPU"), **how)

    def remove(self, text, **how):
        self.publish((OldRemoved if self.old else BlockRemoved)(self.hashes(text), "GPU"), **how)
