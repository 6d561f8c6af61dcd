#!/usr/bin/env python3
"""A live NCCL on one GPU loads the library, and what it says is in the ring. Prints a verdict a line; exit status 0, 1, or 77 where there is no GPU or NCCL.

  live_nccl.py --bin BIN_DIR --library SO

One GPU is one rank: collectives give no events there (NCCL copies), a send to oneself does. So this shows that NCCL finds and takes the library, which table
it takes, init and finalize, and P2p events; more needs more GPUs. Well under a minute. Python's standard library and ctypes only.
"""
import argparse
import ctypes
import ctypes.util
import glob
import json
import os
import subprocess
import sys
import tempfile

SKIP = 77


def find(names):
    for name in names:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def job():
    """In a process of its own: a communicator of one rank, a grouped send and receive to itself."""
    cuda = find(["libcudart.so", "libcudart.so.12", "libcudart.so.13", "libcudart.so.11.0"] + glob.glob("/usr/local/cuda*/lib64/libcudart.so*"))
    nccl = find(["libnccl.so.2", "libnccl.so"] + glob.glob("/usr/lib/x86_64-linux-gnu/libnccl.so*") +
                glob.glob("/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so*"))
    devices = ctypes.c_int(0)
    if cuda is None or cuda.cudaGetDeviceCount(ctypes.byref(devices)) != 0 or devices.value == 0:
        print("skip: no GPU here")
        return SKIP
    if nccl is None:
        print("skip: no libnccl here")
        return SKIP
    version = ctypes.c_int(0)
    nccl.ncclGetVersion(ctypes.byref(version))
    print(f"NCCL {version.value}, {devices.value} GPU(s)")
    comm, send, recv, stream = (ctypes.c_void_p() for _ in range(4))
    checks = [cuda.cudaSetDevice(0), cuda.cudaMalloc(ctypes.byref(send), 1 << 20), cuda.cudaMalloc(ctypes.byref(recv), 1 << 20),
              cuda.cudaStreamCreate(ctypes.byref(stream)), nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)]
    float32 = 7
    for _ in range(5):
        checks += [nccl.ncclGroupStart(), nccl.ncclSend(send, ctypes.c_size_t(1000), float32, 0, comm, stream),
                   nccl.ncclRecv(recv, ctypes.c_size_t(1000), float32, 0, comm, stream), nccl.ncclGroupEnd()]
    checks += [cuda.cudaStreamSynchronize(stream), nccl.ncclCommDestroy(comm)]
    print(f"calls that failed: {sum(c != 0 for c in checks)}")
    return 0 if not any(checks) else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin")
    parser.add_argument("--library")
    parser.add_argument("--job", action="store_true")
    args = parser.parse_args()
    if args.job:
        return job()
    failed = 0

    def verdict(good, what):
        nonlocal failed
        failed += not good
        print(f"{'ok' if good else 'FAILED'}: {what}")

    with tempfile.TemporaryDirectory() as tmp:
        env = dict(os.environ, NCCL_PROFILER_PLUGIN=os.path.abspath(args.library), RANKSCOPE_DIR=f"{tmp}/rings", RANKSCOPE_JOB="gpu",
                   RANKSCOPE_RING_BYTES="8M")
        done = subprocess.run([sys.executable, __file__, "--job"], env=env, stdout=subprocess.PIPE, universal_newlines=True, timeout=300)
        print(done.stdout, end="")
        if done.returncode == SKIP:
            return SKIP
        verdict(done.returncode == 0, "the job ran with the library in it")
        report = subprocess.run([f"{args.bin}/rankscope", "report", "--json", f"{tmp}/rings/gpu"], stdout=subprocess.PIPE, universal_newlines=True)
        verdict(report.returncode == 0, "NCCL loaded the library, and its ring is readable")
        if report.returncode != 0:
            return 1
        report = json.loads(report.stdout)
        rank = report["ranks"][0]
        verdict(rank["nccl_api_version"] >= 1, f"NCCL took table v{rank['nccl_api_version']}, NCCL {rank['nccl_version_text']}")
        verdict(rank["device"] == 0, f"the device is known ({rank['device']})")
        functions = {f["function"]: f for f in report["communicators"][0]["functions"]}
        launched = {name: functions.get(name, {}).get("launched", 0) for name in ("Send", "Recv")}
        verdict(launched == {"Send": 5, "Recv": 5}, f"five sends and five receives: {launched}")
        verdict(report["communicators"][0]["finalized"], "the communicator's end is recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
