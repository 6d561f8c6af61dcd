#!/usr/bin/env python3
"""librankscope.so exports exactly its doors, needs exactly the C library, and can neither be unmapped nor surprise a loader.

  check_library.py LIBRARY          (binutils' nm and readelf; Python's standard library)
"""
import re
import subprocess
import sys

EXPORTS = {f"ncclProfiler_v{v}" for v in range(1, 8)} | {
    "InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "rankscope_hook_v1"}
# What LD_PRELOAD puts before libc's, NCCL's and CUPTI's own.
EXPORTS |= set("open open64 openat openat64 fopen fopen64 close fclose read write readv writev pread pread64 pwrite pwrite64 fsync fdatasync".split())
EXPORTS |= set("ncclAllReduce ncclReduceScatter ncclReduce ncclAllGather ncclBroadcast ncclBcast ncclSend ncclRecv".split())
EXPORTS |= set("cuptiActivityRegisterCallbacks cuptiActivityEnable cuptiActivityDisable cuptiActivityFlushAll cuptiFinalize".split())
# ld-linux is named where thread-local storage or its canary is taken from it (some distributions' linkers do so).
NEEDED = {"libc.so.6"}
ALLOWED_TOO = re.compile(r"ld-linux-.*\.so\.\d+$")
NEWEST_GLIBC = (2, 34)  # Ubuntu 22.04 has 2.35, Debian 12 has 2.36


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def main():
    library = sys.argv[1]
    problems = []
    symbols = [line.split() for line in output("nm", "-D", "--defined-only", library).splitlines()]
    exports = {s[-1].split("@")[0] for s in symbols if s[-2] != "A"}
    if exports != EXPORTS:
        problems.append(f"exports {sorted(exports)}, should be {sorted(EXPORTS)}")
    if any(s[-2] == "u" for s in symbols):
        problems.append("has unique symbols, which would tie copies of the library together")
    dynamic = output("readelf", "-d", "-W", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    extra = {n for n in needed - NEEDED if not ALLOWED_TOO.match(n)}
    if extra or not NEEDED <= needed:
        problems.append(f"needs {sorted(needed)}, should need {sorted(NEEDED)}")
    for flag in ("NODELETE", "NOW"):
        if flag not in dynamic:
            problems.append(f"is not linked with {flag}")
    if "TEXTREL" in dynamic:
        problems.append("has text relocations")
    segments = output("readelf", "-l", "-W", library)
    stack = re.search(r"GNU_STACK.*?(R[W ][E ])", segments)
    if not stack or "E" in stack.group(1):
        problems.append("asks for an executable stack")
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", output("nm", "-D", library))}
    if versions and max(versions) > NEWEST_GLIBC:
        problems.append(f"needs glibc {max(versions)}, should load with {NEWEST_GLIBC}")
    for problem in problems:
        print(f"{library} {problem}")
    if not problems:
        print(f"{library}: exports {len(exports)} tables, needs {', '.join(sorted(needed))}, glibc up to {max(versions) if versions else '-'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
