"""Profiles some steps of a PyTorch program that knows nothing of it.

Lies first on PYTHONPATH as sitecustomize. Nothing happens until the program imports torch. A step is a
step of an optimizer; without one, a pass through the outermost module with gradients off.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("GPUWISE_PROFILE_FOLDER", "")
FIRST = int(os.environ.get("GPUWISE_PROFILE_FIRST", "5"))
LAST = int(os.environ.get("GPUWISE_PROFILE_LAST", "10"))


def next_sitecustomize():
    """The program's own sitecustomize, which this one stands in front of."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class Profile:
    """Counts steps, and records those from FIRST on, before LAST."""

    def __init__(self, torch):
        self.torch = torch
        self.process = os.getpid()
        self.steps = 0
        self.depth = 0
        self.optimizes = False
        self.recorder = None
        self.done = False
        self.handles = []

    def watch(self):
        import atexit

        from torch.nn.modules.module import (
            register_module_forward_hook,
            register_module_forward_pre_hook,
        )
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.handles = [
            register_optimizer_step_post_hook(self.optimizer_stepped),
            register_module_forward_pre_hook(self.entered),
            register_module_forward_hook(self.left),
        ]
        atexit.register(self.ended)
        if FIRST == 0:
            self.start()

    def optimizer_stepped(self, *_):
        self.optimizes = True
        self.stepped()

    def entered(self, *_):
        self.depth += 1

    def left(self, *_):
        self.depth -= 1
        if self.depth <= 0:
            self.depth = 0
            if not self.optimizes and not self.torch.is_grad_enabled():
                self.stepped()

    def stepped(self):
        if self.done or os.getpid() != self.process:
            return
        self.steps += 1
        if self.recorder is not None:
            if self.steps >= LAST:
                self.stop()
            else:
                self.recorder.step()
        elif self.steps >= FIRST:
            self.start()

    def start(self):
        profiler = self.torch.profiler
        kinds = [profiler.ProfilerActivity.CPU]
        gpu = self.torch.cuda.is_available()
        if gpu:
            kinds.append(profiler.ProfilerActivity.CUDA)
        # Without a GPU nothing is told by shapes and allocations, and recording them takes the CPU's time.
        # With a schedule, steps are named in the trace.
        self.recorder = profiler.profile(
            activities=kinds,
            schedule=lambda step: profiler.ProfilerAction.RECORD,
            record_shapes=gpu,
            profile_memory=gpu,
        )
        self.recorder.start()

    def stop(self):
        self.done = True
        for handle in self.handles:
            handle.remove()
        recorder, self.recorder = self.recorder, None
        if recorder is None:
            return
        recorder.stop()
        rank = os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", ""))
        name = ("rank%s" % rank) if rank.isdigit() else "process%d" % self.process
        path = os.path.join(FOLDER, name + ".json.gz")
        recorder.export_chrome_trace(path + ".part.gz")
        os.replace(path + ".part.gz", path)

    def ended(self):
        if os.getpid() != self.process:
            return
        if self.recorder is not None:
            self.stop()
        with open(os.path.join(FOLDER, "%d.steps" % self.process), "w") as note:
            note.write("%d\n" % self.steps)


class Finder(importlib.abc.MetaPathFinder):
    """Sees torch being imported, and nothing else."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            try:
                Profile(module).watch()
            except Exception as error:  # the program matters more than its profile
                sys.stderr.write("gpuwise: this torch cannot be profiled by steps: %s\n" % error)

        spec.loader.exec_module = executed
        return spec


if FOLDER:
    sys.meta_path.insert(0, Finder())
next_sitecustomize()
