#!/usr/bin/env python3
"""A real training loop on one GPU under `rankscope run`: is what CUPTI gives in the ring, what does it cost, does torch.profiler still work?
Prints a verdict a line; exit status 0, 1 if one fails, 77 where there is no GPU or no torch. Under 8 minutes of one GPU.

  live_cuda.py --bin BIN_DIR            (a Python with a CUDA build of torch: this one, or RANKSCOPE_TORCH_PYTHON)

Verdicts: kernels (names, counts, durations against torch.profiler's own list of an uninjected run of the same seed), operations (NCCL's kernels
tied to operations on two ranks that share the GPU), cost (step time, injected against not, medians of alternating runs), coexistence (a
torch.profiler session in an injected run sees what it sees without, and rankscope comes back after it).
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SKIP = 77

WORKER = r"""
import json, os, sys, time
import torch
out, steps, profile, distributed = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "profile", sys.argv[4] == "distributed"
torch.manual_seed(0)
torch.cuda.set_device(0)
if distributed:
    import torch.distributed as dist
    os.environ["NCCL_HOSTID"] = "host-%s" % os.environ["RANK"]   # two ranks on one GPU: NCCL must take them for two hosts
    dist.init_process_group("nccl")
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(24)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
batch = torch.randn(256, 1024, pin_memory=True)
def step():
    x = batch.to("cuda", non_blocking=True)
    loss = model(x).pow(2).mean()
    loss.backward()
    if distributed:
        for p in model.parameters(): dist.all_reduce(p.grad)
    optimizer.step(); optimizer.zero_grad(set_to_none=False)
for _ in range(20): step()
torch.cuda.synchronize()
result = {"steps_s": []}
if profile:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(5): step()
        torch.cuda.synchronize()
    kernels = {}
    for event in profiler.events():
        if str(event.device_type).endswith("CUDA"): kernels.setdefault(event.name, []).append(event.time_range.elapsed_us())
    result["kernels"] = kernels
for i in range(steps):
    begin = time.perf_counter(); step()
    if i % 10 == 9: torch.cuda.synchronize()
    result["steps_s"].append(time.perf_counter() - begin)
torch.cuda.synchronize()
if profile and os.environ.get("WAIT_FOR_RESUME"):
    until = time.time() + 40
    while time.time() < until: step(); torch.cuda.synchronize(); time.sleep(0.05)
if distributed: dist.destroy_process_group()
if os.environ.get("RANK", "0") == "0": json.dump(result, open(out, "w"))
"""


class Lab:
    def __init__(self, binaries, folder):
        self.bin, self.dir = binaries, folder
        self.python = os.environ.get("RANKSCOPE_TORCH_PYTHON", sys.executable)
        (folder / "worker.py").write_text(WORKER)
        self.env = dict(os.environ, RANKSCOPE_DIR=str(folder / "rings"), RANKSCOPE_RING_BYTES="256M")
        self.failed = 0
        self.runs = 0

    def verdict(self, name, good, text):
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: {text}", flush=True)

    def run(self, steps, profile=False, injected=False, ranks=1, **environment):
        """The worker's result, and the report of the recording if it was injected."""
        self.runs += 1
        out, timeline = self.dir / f"result-{self.runs}", self.dir / f"job-{self.runs}.rsc"
        command = [self.python, str(self.dir / "worker.py"), str(out), str(steps), "profile" if profile else "-",
                   "distributed" if ranks > 1 else "-"]
        if ranks > 1:
            command = [self.python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *command[1:]]
        if injected:
            command = [f"{self.bin}/rankscope", "run", "--no-report", "--job", f"run{self.runs}", "-o", str(timeline), "--", *command]
        done = subprocess.run(command, env=dict(self.env, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=200)
        if done.returncode != 0 or not out.exists():
            print(done.stdout[-2000:])
            return None, None
        report = None
        if injected:
            text = subprocess.run([f"{self.bin}/rankscope", "report", "--json", str(timeline)], stdout=subprocess.PIPE,
                                  universal_newlines=True, env=self.env).stdout
            report = json.loads(text) if text else None
            self.timeline = timeline
        return json.loads(out.read_text()), report

    def kernels(self):
        """(name) -> durations in us of the last recorded run."""
        found = collections.defaultdict(list)
        dump = subprocess.run([f"{self.bin}/rankscope", "dump", "--json", "--kind", "gpukernel", str(self.timeline)],
                              stdout=subprocess.PIPE, universal_newlines=True, env=self.env).stdout
        for line in dump.splitlines():
            event = json.loads(line)
            if event.get("type") == "event":
                found[event["name"]].append((event["end_ns"] - event["begin_ns"]) / 1e3)
        return found


def check_kernels(lab):
    plain, _ = lab.run(0, profile=True)
    recorded, report = lab.run(5, injected=True)
    if plain is None or recorded is None or report is None:
        return lab.verdict("kernels", False, "a run failed")
    source = report["gpu"]["ranks"][0]["source"]
    lab.verdict("armed", source["state"] == "armed", f"{source['text']}, {source['library']}, clock {source['clock']} within "
                f"{source['clock_error_ns']} ns, arming took {source['arm_cost_ns'] / 1e6:.1f} ms")
    theirs = {name: times for name, times in plain["kernels"].items() if "Memcpy" not in name and "Memset" not in name}
    per_step_theirs = sum(len(t) for t in theirs.values()) / 5
    per_step_ours = report["gpu"]["ranks"][0]["kernels"] / 25
    lab.verdict("kernel count", abs(per_step_ours - per_step_theirs) < 1, f"{per_step_ours:.1f} a step, torch.profiler has {per_step_theirs:.1f}")
    theirs_ns = statistics.median(sum(theirs.values(), []))
    ours_ns = statistics.median(sum(lab.kernels().values(), []))
    lab.verdict("kernel duration", abs(ours_ns / theirs_ns - 1) < 0.01, f"median {ours_ns:.2f} us, torch.profiler has {theirs_ns:.2f} us")


def check_operations(lab):
    result, report = lab.run(50, injected=True, ranks=2)
    if result is None or report is None:
        return lab.verdict("operations", False, "two ranks on one GPU did not run (NCCL_HOSTID)")
    join = report["gpu"]["join"]
    lab.verdict("operations", join["joined"] > 0 and join["joined"] >= 0.99 * join["nccl_kernels"],
                f"{join['joined']} of {join['nccl_kernels']} NCCL kernels tied, {join['operations_with_gpu_times']} operations with GPU times")


def check_cost(lab):
    plain, injected = [], []
    for _ in range(5):
        for into, with_it in ((plain, False), (injected, True)):
            result, _ = lab.run(300, injected=with_it)
            if result is None:
                return lab.verdict("cost", False, "a run failed")
            into.append(statistics.median(result["steps_s"]))
    ratio = statistics.median(injected) / statistics.median(plain)
    lab.verdict("cost", ratio < 1.01, f"step {statistics.median(plain) * 1e3:.3f} ms alone, {statistics.median(injected) * 1e3:.3f} ms recorded: "
                f"{(ratio - 1) * 100:+.2f} % (spread alone {(max(plain) / min(plain) - 1) * 100:.1f} %)")


def check_coexistence(lab):
    alone, _ = lab.run(0, profile=True)
    beside, report = lab.run(10, profile=True, injected=True, RANKSCOPE_CUPTI_RESUME_S="10", WAIT_FOR_RESUME="1")
    if alone is None or beside is None or report is None:
        return lab.verdict("coexistence", False, "a run failed")
    count = {name: sum(len(t) for t in r["kernels"].values()) for name, r in (("alone", alone), ("beside", beside))}
    lab.verdict("torch.profiler beside it", count["beside"] == count["alone"], f"{count['beside']} GPU records, {count['alone']} without rankscope")
    source = report["gpu"]["ranks"][0]["source"]
    lab.verdict("came back", source["resumes"] > 0 or source["state"] == "armed", f"state {source['state']}, resumed {source['resumes']} times, "
                f"blind for {source['blind_ns'] / 1e9:.1f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(args.bin, pathlib.Path(folder))
        probe = subprocess.run([lab.python, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        if probe.returncode != 0:
            print(f"skip: {lab.python} has no torch that finds a GPU")
            return SKIP
        for check in (check_kernels, check_operations, check_coexistence, check_cost):
            check(lab)
        return 1 if lab.failed else 0


if __name__ == "__main__":
    sys.exit(main())
