#!/usr/bin/env python3
"""Real traces of torch.profiler: what is imported gives the same sums as plain arithmetic over the file, digit for digit.

  real_traces_test.py RANKSCOPE TRACES

The sums are made here, by decimal arithmetic over the JSON, and compared with the table of the traces' README, which was
made with doubles: those agree to what a double of microseconds can hold.
"""
import decimal
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

D = decimal.Decimal
RANKSCOPE, TRACES = sys.argv[1], pathlib.Path(sys.argv[2])
failures = 0


def check(ok, *what):
    global failures
    print("ok  " if ok else "FAIL", *what)
    failures += not ok


def union(intervals):
    total, end = D(0), None
    for a, b in sorted(intervals):
        if end is None or a > end:
            total += b - a
            end = b
        elif b > end:
            total += b - end
            end = b
    return total


def truth(path):
    events = json.load(gzip.open(path), parse_float=D, parse_int=D)["traceEvents"]
    nccl, compute, copies = [], [], []
    for e in events:
        cat = str(e.get("cat", "")).lower()
        if e.get("ph") != "X" or cat not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        interval = (e["ts"], e["ts"] + e["dur"])
        (copies if cat != "kernel" else nccl if "nccl" in e["name"].lower() else compute).append(interval)
    everything = nccl + compute + copies
    span = max(b for _, b in everything) - min(a for a, _ in everything)
    comm, comp = union(nccl), union(compute)
    return {"kernels": len(nccl) + len(compute), "communication": comm, "compute": comp,
            "hidden": comm + comp - union(nccl + compute), "span": span, "idle": span - union(everything)}


def readme():
    """File -> the README's row, as decimals."""
    rows = {}
    for line in (TRACES / "README.md").read_text().splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) != 11 or not cells[2].isdigit():
            continue
        numbers = [D(c) if c not in ("-", "") else None for c in cells[2:10]]
        rows[cells[1]] = dict(zip(("rank", "kernels", "communication", "compute", "hidden", "percent", "span", "idle"), numbers))
    return rows


def imported(paths, folder):
    out = str(folder / "x.rsc")
    subprocess.run([RANKSCOPE, "import", "torch-profiler", "-o", out] + [str(p) for p in paths], check=True, stderr=subprocess.PIPE)
    report = json.loads(subprocess.run([RANKSCOPE, "report", "--json", out], check=True, stdout=subprocess.PIPE).stdout)
    us = lambda ns: D(ns) / 1000
    return [{"rank": r["rank"], "kernels": r["kernels"], "communication": us(r["nccl_ns"]), "compute": us(r["compute_ns"]),
             "hidden": us(r["nccl_hidden_ns"]), "span": us(r["window_ns"]), "idle": us(r["window_ns"] - r["busy_ns"])}
            for r in report["gpu"]["ranks"]], report


def main():
    if not (TRACES / "README.md").exists():
        print(f"skipped: the real traces are not here ({TRACES})")
        sys.exit(77)
    rows = readme()
    check(len(rows) == 12, "rows of the README:", len(rows))
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for name, row in rows.items():
            path = TRACES / (name + ".json.gz")
            got = imported([path], tmp)[0][0]
            exact = truth(path)
            check(all(got[key] == exact[key] for key in exact), name, got if any(got[k] != exact[k] for k in exact) else "exact")
            check(got["rank"] == row["rank"], name, "rank", got["rank"])
            # Absolute microseconds with fractions, read as doubles, are multiples of 0.25: up to that is lost an event.
            rough = D("0.0001") if name.endswith("ns_resolution") else D("1e-7")
            for key in ("kernels", "communication", "compute", "hidden", "span", "idle"):
                off = abs(D(got[key]) - row[key])
                check(off <= row["span"] * rough, name, key, got[key], "README", row[key])
        # Two ranks of one job whose lists of operations differ: nobody may be called late.
        ranks, report = imported([TRACES / "two-of-128"], tmp)
        check([r["rank"] for r in ranks] == [0, 1], "two-of-128: both ranks")
        check(report["skew"]["verdict"] == "nothing_to_compare", "two-of-128: no verdict", report["skew"]["verdict"])
    sys.exit(1 if failures else 0)


main()
