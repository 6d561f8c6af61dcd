#!/usr/bin/env python3
"""Plays recordings of NCCL's callbacks against the built library and compares the report with counts of the recordings.

  check_recordings.py --bin BIN_DIR --library SO ROOT_OR_FOLDER... [--all-events]

What is expected is counted here from the recording alone: operations of each kind, communicators and their members, sequence numbers, sizes,
what never finished and on which ranks. Exit status 0 if all agree, 1 if not, 77 if there are no recordings. Python's standard library only.
"""
import argparse
import collections
import gzip
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile

GROUP, COLL, P2P, PROXY_OP, PROXY_STEP, PROXY_CTRL, KERNEL_CH, NET = 1, 2, 4, 8, 16, 32, 64, 128
GROUP_API, COLL_API, P2P_API, LAUNCH, CE = 0x100, 0x200, 0x400, 0x800, 0x7000
TYPES = {"Group": GROUP, "Coll": COLL, "P2p": P2P, "ProxyOp": PROXY_OP, "CollApi": COLL_API, "P2pApi": P2P_API}
V1_FUNCTIONS = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"]
V1_TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"]


def library_mask(version):
    """What the library asks for by default, as docs/design.md says."""
    if version <= 4:
        return GROUP | COLL | P2P | PROXY_OP
    return COLL | P2P | PROXY_OP | GROUP_API | COLL_API | P2P_API | LAUNCH | (0x1000 if version >= 6 else 0)


def read_lines(path):
    opener = {".gz": gzip.open, ".xz": lzma.open}[path.suffix]
    with opener(path, "rt") as f:
        return [json.loads(line) for line in f if line.strip()]


def recorded_files(folder):
    files = [p for p in folder.iterdir() if p.name.startswith("rec.") and p.suffix in (".gz", ".xz")]
    return sorted(files, key=lambda p: (len(p.name), p.name))


class Expected:
    """What the report must say of one process."""

    def __init__(self, lines):
        self.slots = []                                   # one a communicator, in order of init
        self.launched = collections.Counter()             # (slot, function)
        self.api = collections.Counter()
        self.last_seq = {}
        self.unfinished = collections.Counter()
        self.colls = collections.Counter()                # (slot, function, count, type, seq, root)
        self.p2ps = collections.Counter()                 # (slot, function, count, peer)
        self.version = 0
        self.killed = not any(l["cb"] == "unload" for l in lines)
        self._count(lines)

    def _count(self, lines):
        own_pid = next((l.get("pid") for l in lines if l["cb"] == "load"), None)
        contexts, known, op_of, open_host, proxies = {}, set(), {}, collections.Counter(), collections.Counter()
        owner = {}          # proxy handle -> operation handle
        where = {}          # operation -> (slot, function)
        capture = set()     # API handles of captured calls
        joined = set()      # API handles that a launch has joined
        for l in lines:
            cb = l["cb"]
            if cb == "init":
                self.version = self.version or l["ver"]
                contexts[l["ctx"]] = len(self.slots)
                self.slots.append({"hash": l.get("commId"), "rank": l.get("rank", -1), "size": l.get("nranks", 0)})
            elif cb == "start":
                self._start(l, own_pid, contexts, known, op_of, open_host, proxies, owner, where, capture, joined)
            elif cb == "stop":
                h = l.get("h")
                if h in op_of:
                    open_host[(op_of[h], h)] = 0
                if h in owner:
                    proxies[owner.pop(h)] -= 1
        unfinished = {op for (op, _), n in open_host.items() if n} | {op for op, n in proxies.items() if n}
        for op in unfinished:
            self.unfinished[where[op]] += 1

    def _start(self, l, own_pid, contexts, known, op_of, open_host, proxies, owner, where, capture, joined):
        kind, mask = TYPES.get(l["type"], 0), library_mask(self.version)
        parent, h = l.get("parent"), l.get("h")
        has_parent = parent in known
        if kind in (COLL, P2P) and self.version <= 4 and not has_parent:
            return
        if kind in (COLL_API, P2P_API) and self.version < 5:
            return
        if kind == 0:
            return
        slot = contexts.get(l.get("ctx"))
        # Up to 2.27 the children look at the group's handle, which the library gives.
        if h is not None:
            known.add(h)
        func = V1_FUNCTIONS[l["funcNum"]] if "funcNum" in l else l.get("func")
        if kind in (COLL_API, P2P_API):
            if slot is None:
                return
            self.api[(slot, func)] += 1
            if h is None:
                h = object()
            op_of[h] = h
            where[h] = (slot, func)
            open_host[(h, h)] = 1
            if l.get("graphCaptured"):
                capture.add(h)
        elif kind in (COLL, P2P):
            if slot is None:
                # Recorded, but of no communicator: in the dump only.
                dtype = l.get("datatype", "").replace("nccl", "").lower()
                if l.get("ctx") is None and kind == COLL:
                    self.colls[(None, func, l["count"], dtype, l.get("seq"), l.get("root"))] += 1
                elif l.get("ctx") is None:
                    self.p2ps[(None, func, l["count"], l.get("peer"))] += 1
                return
            self.launched[(slot, func)] += 1
            if self.version <= 3 and self.slots[slot]["hash"] is None:
                self.slots[slot]["hash"] = l.get("commHash")
                self.slots[slot]["rank"] = l.get("rank", -1)
            if h is None:
                h = object()
            op = h
            right = parent in op_of and parent not in capture and parent not in joined
            if self.version >= 5 and right:
                op = op_of[parent]
                joined.add(parent)
            op_of[h] = op
            where[op] = (slot, func)
            open_host[(op, h)] = 1
            dtype = V1_TYPES[l["datatypeNum"]] if "datatypeNum" in l else l.get("datatype", "").replace("nccl", "").lower()
            dtype = {"unknown": "bytes"}.get(dtype, dtype)
            if kind == COLL:
                self.last_seq[(slot, func)] = l.get("seq")
                self.colls[(slot, func, l["count"], dtype, l.get("seq"), l.get("root"))] += 1
            else:
                self.p2ps[(slot, func, l["count"], l.get("peer"))] += 1
        elif kind == PROXY_OP and mask & PROXY_OP:
            if l.get("pid") != own_pid or parent not in op_of or h is None:
                return
            op = op_of[parent]
            owner[h] = op
            proxies[op] += 1


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120, **kwargs)


class Check:
    def __init__(self, args):
        self.args = args

    def folder(self, folder):
        """A list of what doesn't agree."""
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            expected, inputs = [], []
            for path in recorded_files(folder):
                lines = read_lines(path)
                plain = tmp / (path.name.rsplit(".", 1)[0])
                plain.write_text("".join(json.dumps(l) + "\n" for l in lines))
                inputs.append(str(plain))
                expected.append(Expected(lines))
            env = dict(os.environ, RANKSCOPE_DIR=str(tmp / "rings"), RANKSCOPE_JOB="job", RANKSCOPE_RING_BYTES="8M",
                       RANKSCOPE_FALLBACK_DIR="", RANKSCOPE_LOG="warning")
            paced = folder.name.startswith("straggler")
            command = [f"{self.args.bin}/rankscope_replay", "--library", self.args.library]
            command += ["--pace", "recorded"] if paced else []
            command += ["--all"] if self.args.all_events else []
            played = run(command + inputs, env=env)
            problems = []
            if played.returncode != 0:
                problems.append(f"the player failed ({played.returncode}): {played.stderr.strip()}")
            if not any(e.version for e in expected):
                return problems
            timeline = tmp / "job.rsc"
            merged = run([f"{self.args.bin}/rankscope", "merge", str(tmp / "rings" / "job"), "-o", str(timeline)])
            if merged.returncode != 0:
                return problems + [f"merge failed: {merged.stderr.strip()}"]
            report = run([f"{self.args.bin}/rankscope", "report", "--json", str(timeline)])
            if report.returncode != 0:
                return problems + [f"report failed: {report.stderr.strip()}"]
            report = json.loads(report.stdout)
            events = run([f"{self.args.bin}/rankscope", "dump", "--json", "--kind", "Coll", "--kind", "P2p", str(timeline)])
            events = [json.loads(line) for line in events.stdout.splitlines()]
            problems += self.compare(expected, report, [e for e in events if e.get("type") == "event"])
            if paced and folder.name == "straggler-n4":
                problems += self.straggler(report)
            if folder.name == "abort-n4":
                problems += self.abort(report)
            return problems

    def compare(self, expected, report, events):
        problems = []

        def differ(what, want, got):
            if want != got:
                problems.append(f"{what}: the recording has {want}, the report says {got}")

        ranks = {}  # file index -> rank_index
        for r in report["ranks"]:
            ranks[r["environment_rank"]] = r["rank_index"]
        for i, e in enumerate(expected):
            if not e.version:
                continue
            if i not in ranks:
                problems.append(f"process {i} left no ring")
                continue
            index = ranks[i]
            differ(f"process {i} API version", e.version, report["ranks"][index]["nccl_api_version"])
            said = {p["slot"]: p for p in report["per_rank"][index]["communicators"]}
            differ(f"process {i} communicators", len(e.slots), len(said))
            got_launched, got_api, got_seq, got_unfinished = {}, {}, {}, {}
            for slot, comm in said.items():
                for f in comm["functions"]:
                    key = (slot, f["function"])
                    got_launched[key], got_api[key] = f["launched"], f["api_calls"]
                    got_unfinished[key] = f["unfinished"]
                    if f["last_seq"] is not None:
                        got_seq[key] = f["last_seq"]
            clean = lambda d: {k: v for k, v in d.items() if v}  # noqa: E731
            differ(f"process {i} launches", clean(e.launched), clean(got_launched))
            differ(f"process {i} API calls", clean(e.api), clean(got_api))
            differ(f"process {i} last sequence numbers", e.last_seq, got_seq)
            differ(f"process {i} unfinished operations", clean(e.unfinished), clean(got_unfinished))
            colls, p2ps = collections.Counter(), collections.Counter()
            for v in events:
                if v["rank_index"] != index:
                    continue
                if v["kind"] == "Coll":
                    colls[(v["comm"], v["function"], v["count"], v["data_type"], v["seq"], v["root"])] += 1
                else:
                    p2ps[(v["comm"], v["function"], v["count"], v["peer"])] += 1
            open_launches = sum(e.colls.values()) - sum(colls.values())
            if open_launches > sum(e.unfinished.values()) or colls - e.colls:
                differ(f"process {i} collectives in detail", e.colls - colls, colls - e.colls)
            if p2ps - e.p2ps or sum(e.p2ps.values()) - sum(p2ps.values()) > sum(e.unfinished.values()):
                differ(f"process {i} transfers in detail", e.p2ps - p2ps, p2ps - e.p2ps)
        problems += self.communicators(expected, report, ranks)
        return problems

    def communicators(self, expected, report, ranks):
        want, got = collections.defaultdict(list), collections.defaultdict(list)
        for i, e in enumerate(expected):
            for slot in e.slots:
                if slot["hash"] and int(slot["hash"], 16):
                    want[slot["hash"].rjust(16, "0")].append((ranks.get(i), slot["rank"]))
        for comm in report["communicators"]:
            if not comm["identity_known"]:
                continue
            for m in comm["members"]:
                got[comm["hash"].rjust(16, "0")].append((m["rank_index"], m["communicator_rank"]))
        want = {k: sorted(v) for k, v in want.items()}
        got = {k: sorted(v) for k, v in got.items()}
        return [] if want == got else [f"communicators: the recording has {want}, the report says {got}"]

    @staticmethod
    def straggler(report):
        """Rank 3 is last by about 300 ms in the third of four all-reduces and in no other."""
        late = [o for o in report["skew"]["largest"] if o["skew_ns"] > 100e6]
        if [(o["last"]["rank"], o["operation"]["seq"]) for o in late] != [(3, 2)]:
            return [f"straggler: expected rank 3 late in AllReduce #2 alone, got {late}"]
        if not 250e6 < late[0]["skew_ns"] < 350e6:
            return [f"straggler: expected about 300 ms, got {late[0]['skew_ns'] / 1e6} ms"]
        return []

    @staticmethod
    def abort(report):
        """The last rank never joins the operation that the others are in."""
        text = json.dumps(report["hang"])
        comms = report["hang"]["communicators"]
        if not comms:
            return [f"abort: the report names nobody who never joined: {text[:400]}"]
        behind = {r["rank"] for c in comms for m in c.get("missing", []) for r in m.get("ranks", [])}
        if 3 not in behind and '"rank": 3' not in text:
            return [f"abort: rank 3 should be named: {text[:600]}"]
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--all-events", action="store_true", help="deliver everything recorded, whatever the library asks for")
    parser.add_argument("roots", nargs="+")
    args = parser.parse_args()
    folders = []
    for root in map(pathlib.Path, args.roots):
        if root.is_dir():
            folders += sorted({p.parent for p in root.rglob("rec.*") if p.suffix in (".gz", ".xz")})
    if not folders:
        print(f"no recordings in {', '.join(args.roots)}: skipped")
        return 77
    failed = 0
    for folder in folders:
        problems = Check(args).folder(folder)
        name = f"{folder.parent.name}/{folder.name}"
        print(f"{name}: {'ok' if not problems else 'DIFFERS'}", flush=True)
        for problem in problems:
            print(f"  {problem}"[:1500])
        failed += bool(problems)
    print(f"{len(folders) - failed} of {len(folders)} recordings agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
