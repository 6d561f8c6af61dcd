#!/usr/bin/env python3
"""`rankscope import torch-profiler` as a user types it, over traces that are written here with a rank that is late.

  import_test.py RANKSCOPE
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

RANKSCOPE = str(pathlib.Path(sys.argv[1]).resolve())
OPERATIONS = 80


def trace(rank, late_us=0.0, numbered=True, count=OPERATIONS, first_elements=1000, told=True):
    """One rank of two: an AllReduce each 10 ms, whose kernel begins late by `late_us` and ends with the other's."""
    events = []
    for i in range(count):
        ts = 1_000_000 + 10_000 * i
        args = {"External id": i + 1, "Collective name": "allreduce", "dtype": "Float", "Group size": 2, "Process Group Name": "0",
                "In msg nelems": first_elements if i == 0 else 1000, "Out msg nelems": 1000, "Process Group Ranks": "[0, 1]"}
        if numbered:
            args["Seq"] = i + 7
        events.append({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 5, "tid": 5, "ts": ts, "dur": 20, "args": args})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": ts + 5, "dur": 4,
                       "args": {"External id": i + 1, "correlation": i + 1, "cbid": 211}})
        events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 20,
                       "ts": ts + 100 + late_us, "dur": 8000 - late_us,
                       "args": {"device": 0, "stream": 20, "correlation": i + 1, "External id": i + 1}})
    out = {"schemaVersion": 1, "host_name": "node1", "traceEvents": events, "baseTimeNanoseconds": 1711964646000000000}
    if told:
        out["distributedInfo"] = {"rank": rank, "world_size": 2, "nccl_version": "2.21.5",
                                  "pg_config": [{"pg_name": "0", "ranks": [0, 1], "pg_size": 2}]}
    return json.dumps(out)


class ImportTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)

    def write(self, name, text):
        path = self.dir / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    def run_tool(self, *words):
        return subprocess.run([RANKSCOPE, *words], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

    def report(self, path):
        done = self.run_tool("report", "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, status, sentence, *words):
        done = self.run_tool("import", *words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(sentence, done.stderr)
        self.assertEqual([p.name for p in self.dir.iterdir() if p.suffix == ".rsc" or p.name.startswith(".")], [])

    def test_the_late_rank_of_a_folder_of_traces_is_named(self):
        (self.dir / "traces").mkdir()
        self.write("traces/a.pt.trace.json.gz", trace(0))
        self.write("traces/b.pt.trace.json", trace(1, late_us=3000.5))
        self.write("traces/notes.txt", "no trace")
        done = self.run_tool("import", "torch-profiler", "traces", "-o", "job.rsc", "--job", "night")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rankscope report job.rsc", done.stderr)
        report = self.report("job.rsc")
        self.assertEqual(report["job"]["name"], "night")
        text = self.run_tool("report", "job.rsc").stdout
        self.assertIn("rank 1", text.splitlines()[0])
        # 80 times 3.0005 ms.
        self.assertIn("each lost 240 ms", text.splitlines()[0])
        self.assertEqual([row["window"]["operations"] for row in report["totals"]], [OPERATIONS])
        self.assertEqual([row["job"]["launched"] for row in report["totals"]], [2 * OPERATIONS])

    def test_lists_that_differ_are_said_and_not_judged(self):
        a, b = self.write("rank0.json", trace(0, numbered=False)), self.write("rank1.json", trace(1, 3000, numbered=False, first_elements=4))
        done = self.run_tool("import", "torch-profiler", a, b)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("differ", done.stderr)
        report = self.report("imported.rsc")
        self.assertEqual(report["skew"]["verdict"], "nothing_to_compare")
        self.assertIn("not matched", self.run_tool("report", "imported.rsc").stdout)

    def test_what_cannot_be_imported_gets_one_sentence_and_leaves_nothing(self):
        a = self.write("a.json", trace(0, told=False, count=0)[:-1] + ', "x": 1}')
        self.refused(3, "has no trace events", "torch-profiler", a)
        a, b = self.write("a.json", '{"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 1}]}'), self.write("b.json", trace(1))
        self.refused(3, "cannot tell which rank", "torch-profiler", a, b)
        self.refused(3, "are both of rank 1", "torch-profiler", b, self.write("c.json", trace(1)))
        self.refused(2, "is one of the inputs", "torch-profiler", b, "-o", b)
        self.refused(3, "cannot open", "torch-profiler", str(self.dir / "nowhere.json"))
        self.refused(3, "is not a trace of torch.profiler", "torch-profiler", self.write("d.json", "hello"))
        self.refused(2, "", "torch-profiler")
        self.refused(2, "", "nsys", b)
        (self.dir / "empty").mkdir()
        self.refused(3, "there is no trace", "torch-profiler", "empty")

    def test_the_only_trace_need_not_say_its_rank(self):
        a = self.write("a.json", trace(0, told=False))
        done = self.run_tool("import", "torch-profiler", a)
        self.assertEqual(done.returncode, 0)
        self.assertIn("taken as rank 0", done.stderr)

    def test_hang_says_that_a_trace_cannot_tell(self):
        self.run_tool("import", "torch-profiler", self.write("rank0.json", trace(0)))
        done = self.run_tool("hang", "imported.rsc")
        self.assertEqual(done.returncode, 3)
        self.assertIn("imported from torch.profiler", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
