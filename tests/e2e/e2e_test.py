#!/usr/bin/env python3
"""Real processes, the built library and program, end to end: a job's rings to an answer on the terminal.

  e2e_test.py --bin BIN_DIR --library SO --doubles FOLDER [TEST...]          (Python's unittest; standard library only)
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = argparse.Namespace()


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.tmp.name)
        self.env = dict(os.environ, RANKSCOPE_DIR=str(self.dir / "rings"), RANKSCOPE_RING_BYTES="4M", NO_COLOR="1")
        for name in ("NCCL_PROFILER_PLUGIN", "RANKSCOPE_JOB", "RANK", "WORLD_SIZE"):
            self.env.pop(name, None)

    def tearDown(self):
        self.tmp.cleanup()

    def tool(self, *args, status=0):
        done = subprocess.run([f"{ARGS.bin}/rankscope", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, env=self.env, timeout=120)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def job_env(self, name):
        return dict(self.env, RANKSCOPE_JOB=name, NCCL_PROFILER_PLUGIN=ARGS.library)

    def job(self, *args, name="job"):
        return subprocess.run([f"{ARGS.bin}/rankscope_demo_job", *map(str, args)], env=self.job_env(name), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=120)

    def flat(self, text):
        return " ".join(text.split())

    def test_one_timeline_has_all_sources_and_the_phases_are_right(self):
        """NCCL's plugin, CUPTI by the stand-in, the hook's marks: under `rankscope run`, which sets the doors."""
        timeline = self.dir / "all.rsc"
        self.tool("run", "--no-report", "-o", timeline, "--", f"{ARGS.bin}/rankscope_demo_job", "--doubles", ARGS.doubles,
                  "--ranks", 3, "--steps", 20, "--slow-rank", 1, "--slow-ms", 20, "--compute-ms", 12)
        report = json.loads(self.tool("report", "--json", timeline))
        self.assertEqual(report["skew"]["stragglers"][0]["rank"], 1)
        join = report["gpu"]["join"]
        # Five operations a step and rank, Send and Recv in one launch.
        self.assertEqual((join["nccl_kernels"], join["launches"], join["joined"]), (300, 300, 300))
        for rank in report["gpu"]["ranks"]:
            self.assertEqual(rank["doors"], ["nccl_plugin", "cuda_injection", "python_hook"])
            self.assertEqual(rank["source"]["state"], "armed")
            self.assertEqual(rank["kernels"], 20 * (12 + 24 + 2 + 5))
            self.assertEqual(rank["copies"]["host to device"]["bytes"], 20 * (8 << 20))
        for rank in report["phases"]["ranks"]:
            phases = {k: v / 1e6 for k, v in rank["phases_ns"].items()}
            compute = 20 * (32 if rank["rank"] == 1 else 12)
            # The job sleeps at least as long as it is told to; a loaded machine lets it sleep longer.
            self.assertGreaterEqual(phases["forward"], 0.96 * compute / 3)
            self.assertGreaterEqual(phases["backward"], 0.96 * compute * 2 / 3)
            self.assertGreaterEqual(phases["data loading"], 20 * 0.5)
            self.assertGreaterEqual(phases["optimizer"], 20 * 0.5)
            self.assertEqual(sum(rank["phases_ns"].values()) + rank["other_ns"], rank["window_ns"])
        text = self.tool("phases", timeline)
        self.assertIn("Most of the host's time is", text)
        self.assertIn("demo::backward_gemm", text)
        self.assertIn("GpuKernel", self.tool("dump", "--kind", "gpukernel", "--limit", 3, timeline))

    def test_the_slow_rank_is_named_in_text_and_json(self):
        for api in (1, 4, 5, 7):
            with self.subTest(api=api):
                name = f"slow{api}"
                done = self.job("--ranks", 4, "--steps", 20, "--slow-rank", 2, "--slow-ms", 30, "--api", api, name=name)
                self.assertEqual(done.returncode, 0, done.stderr)
                timeline = self.dir / f"{name}.rsc"
                self.tool("merge", self.dir / "rings" / name, "-o", timeline)
                text = self.flat(self.tool("report", timeline))
                self.assertTrue(text.startswith("The others wait for rank 2"), text[:300])
                report = json.loads(self.tool("report", "--json", timeline))
                largest = report["skew"]["largest"]
                self.assertTrue(largest and all(o["last"]["rank"] == 2 for o in largest[:5]), largest[:2])
                # 20 steps, of which each costs the others about 30 ms; the first operations of the communicator don't count.
                self.assertGreater(largest[0]["skew_ns"], 25e6)
                launched = sum(f["launched"] for f in report["communicators"][0]["functions"])
                self.assertEqual(launched, 4 * 20 * 6)

    def test_a_healthy_job_accuses_nobody(self):
        self.assertEqual(self.job("--ranks", 4, "--steps", 20).returncode, 0)
        text = self.flat(self.tool("report", self.dir / "rings" / "job"))
        self.assertTrue(text.startswith("No rank stands out"), text[:300])

    def test_run_merges_reports_and_passes_the_status_on(self):
        timeline = self.dir / "out.rsc"
        done = subprocess.run([f"{ARGS.bin}/rankscope", "run", "--job", "r", "-o", str(timeline), "--", f"{ARGS.bin}/rankscope_demo_job",
                               "--ranks", "2", "--steps", "10", "--kill-rank", "1", "--patience-s", "0.5"],
                              env=dict(self.env, RANKSCOPE_LIBRARY=ARGS.library), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(timeline.exists(), done.stderr)
        self.assertEqual(len(json.loads(self.tool("report", "--json", timeline))["ranks"]), 2)

    def test_a_live_hang_names_who_has_not_come(self):
        job = subprocess.Popen([f"{ARGS.bin}/rankscope_demo_job", "--ranks", "4", "--hang-rank", "2", "--hang-step", "3"],
                               env=self.job_env("job"), stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            deadline = time.monotonic() + 60
            while True:
                time.sleep(1)
                if (self.dir / "rings" / "job").exists():
                    text = self.flat(self.tool("hang", self.dir / "rings" / "job"))
                    if "has not called" in text or time.monotonic() > deadline:
                        break
            self.assertIn("rank 2 has not called AllReduce #3 (4 B, float32", text)
            self.assertIn("ranks 0, 1, 3 are in it", text)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        # The rings that the kill left say the same.
        self.assertIn("rank 2 has not called AllReduce #3", self.flat(self.tool("hang", self.dir / "rings" / "job")))
        self.tool("merge", self.dir / "rings" / "job", "-o", self.dir / "left.rsc")
        self.assertIn("rank 2 has not called AllReduce #3", self.flat(self.tool("hang", self.dir / "left.rsc")))

    def test_a_killed_rank_is_the_one_that_has_not_come(self):
        self.assertEqual(self.job("--ranks", 4, "--kill-rank", 3, "--hang-step", 4, "--patience-s", 1).returncode, 1)
        text = self.flat(self.tool("hang", self.dir / "rings" / "job"))
        self.assertIn("rank 3 has not called ReduceScatter #8", text)
        self.assertIn("the first to fall silent was rank 3", text)

    def test_a_mismatch_is_called_one(self):
        self.assertEqual(self.job("--ranks", 4, "--mismatch-rank", 1, "--hang-step", 3, "--patience-s", 1).returncode, 1)
        text = self.flat(self.tool("hang", self.dir / "rings" / "job"))
        self.assertIn("ranks disagree on the operation", text)
        self.assertIn("ranks 0, 2, 3 are in ReduceScatter #6, rank 1 is in AllReduce #3", text)

    def test_a_restart_in_the_same_job_is_said(self):
        for _ in range(2):
            self.assertEqual(self.job("--ranks", 2, "--steps", 5).returncode, 0)
        report = json.loads(self.tool("report", "--json", self.dir / "rings" / "job"))
        self.assertEqual(len(report["ranks"]), 4)
        self.assertIn("several rings", " ".join(report["warnings"]))

    def test_a_job_without_the_library_runs_the_same(self):
        env = self.job_env("job")
        env["NCCL_PROFILER_PLUGIN"] = str(self.dir / "missing.so")
        done = subprocess.run([f"{ARGS.bin}/rankscope_demo_job", "--ranks", "2", "--steps", "3"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("no profiler plugin", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--doubles", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
