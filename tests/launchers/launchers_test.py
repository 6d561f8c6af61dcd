#!/usr/bin/env python3
"""The real launchers on this machine: every variable arrives in every worker, every worker leaves a ring, and what runs is not changed.

  launchers_test.py --bin BIN_DIR [TEST...]

Needs a Python with torch and, for its launcher, deepspeed: RANKSCOPE_TORCH_PYTHON names it (else this one). Exit status 77 = skipped. No
GPU is needed: the workers use gloo, and NVTX ranges make their rings.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ARGS = argparse.Namespace()

WORKER = """
import os, sys
import torch, torch.utils.data
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in torch.utils.data.DataLoader(torch.randn(40, 16), batch_size=4, num_workers=2):
    torch.cuda.nvtx.range_push("forward")
    loss = model(batch).pow(2).mean()
    torch.cuda.nvtx.range_pop()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.save(model.state_dict(), os.path.join(sys.argv[-1], "checkpoint-%d.pt" % dist.get_rank()))
names = ("NCCL_PROFILER_PLUGIN", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "RANKSCOPE_JOB", "NCCL_RANKSCOPE_JOB")
with open(os.path.join(sys.argv[-1], "environment-%d" % dist.get_rank()), "w") as out:
    out.write(repr({name: os.environ.get(name) for name in names}))
dist.destroy_process_group()
"""


def has_module(name):
    return subprocess.run([ARGS.python, "-c", f"import {name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class LaunchersTest(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.dir = pathlib.Path(self.tmp.name)
        (self.dir / "train.py").write_text(WORKER)
        folder = os.path.dirname(ARGS.python)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RANKSCOPE", "NCCL", "RANK", "WORLD"))}
        self.env.update(PATH=folder + os.pathsep + os.environ["PATH"], RANKSCOPE_DIR=str(self.dir / "rings"), OMP_NUM_THREADS="1")

    def tool(self, *command):
        return subprocess.run([f"{ARGS.bin}/rankscope", *map(str, command)], env=self.env, cwd=self.dir, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=280)

    def check(self, *launcher):
        timeline = self.dir / "job.rsc"
        done = self.tool("run", "--hook", "--no-report", "--job", "real", "-o", timeline, "--", *launcher, self.dir / "train.py", self.dir)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in (0, 1):
            seen = eval((self.dir / f"environment-{rank}").read_text())
            for name in ("NCCL_PROFILER_PLUGIN", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
                self.assertTrue(seen[name] and seen[name].endswith("librankscope.so"), (rank, name, seen))
            self.assertEqual((seen["RANKSCOPE_JOB"], seen["NCCL_RANKSCOPE_JOB"]), ("real", "real"))
        report = json.loads(self.tool("report", "--json", timeline).stdout)
        # Two workers; neither the launcher nor a data-loader worker left a ring.
        self.assertEqual(sorted(r["rank"] for r in report["ranks"]), [0, 1])
        self.assertEqual([r["world_size"] for r in report["ranks"]], [2, 2])
        ranges = {(r["domain"], r["name"]): r["count"] for r in report["phases"]["ranges"]}
        self.assertEqual(ranges[("", "forward")], 20)
        # Ten batches and the wait that finds the end, less the first: the library comes with the first range, behind it.
        self.assertEqual(ranges[("rankscope", "data_loading")], 20)
        self.assertEqual(ranges[("rankscope", "optimizer")], 20)
        self.assertEqual(ranges[("rankscope", "checkpoint_save")], 2)
        for rank in report["gpu"]["ranks"]:
            self.assertEqual(rank["doors"], ["nvtx_injection", "python_hook"])

    def test_torchrun(self):
        self.check("torchrun", "--nproc-per-node", "2")

    def test_deepspeed(self):
        if not has_module("deepspeed"):
            self.skipTest("deepspeed is not installed")
        self.check("deepspeed", "--num_gpus", "2", "--no_local_rank")

    def test_importing_torch_with_every_door_open_changes_nothing(self):
        code = ("import torch; print(torch.__version__, torch.cuda.is_available());"
                "maps = open('/proc/self/maps').read(); print('libcuda.so' in maps)")
        plain = subprocess.run([ARGS.python, "-c", code], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = self.tool("env", "--hook").stdout
        self.assertIn("CUDA_INJECTION64_PATH", lines)
        injected = subprocess.run(["sh", "-c", lines + 'exec "$0" -c "$1"', ARGS.python, code], env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.assertEqual((injected.returncode, injected.stdout, injected.stderr), (plain.returncode, plain.stdout, plain.stderr))
        self.assertFalse((self.dir / "rings").exists(), "no ring for an import")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    ARGS, rest = parser.parse_known_args()
    ARGS.python = os.environ.get("RANKSCOPE_TORCH_PYTHON", sys.executable)
    if not has_module("torch"):
        print(f"skipped: {ARGS.python} has no torch; name one that has in RANKSCOPE_TORCH_PYTHON")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
