#!/usr/bin/env python3
"""The built library under LD_PRELOAD: harmless to whatever inherits it, and right about the files of a process that trains.

  preload_test.py LIBRARY TRAINER      (TRAINER: preload_trainer, which opens the plugin, makes a communicator, writes and reads files)
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY, TRAINER, TOOL = sys.argv[1:4]


class PreloadTest(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.dir = pathlib.Path(self.tmp.name)
        self.plain = {k: v for k, v in os.environ.items() if not k.startswith(("RANKSCOPE", "NCCL", "LD_PRELOAD"))}
        self.plain["RANKSCOPE_DIR"] = str(self.dir / "rings")
        self.loaded = dict(self.plain, LD_PRELOAD=LIBRARY)

    def run_in(self, env, command, **more):
        return subprocess.run(command, env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)

    def same(self, *command, **more):
        plain, loaded = self.run_in(self.plain, command, **more), self.run_in(self.loaded, command, **more)
        self.assertEqual((loaded.returncode, loaded.stdout, loaded.stderr), (plain.returncode, plain.stdout, plain.stderr), command)
        self.assertFalse((self.dir / "rings").exists(), command)
        return loaded

    def test_shells_compilers_and_helpers_don_t_notice(self):
        (self.dir / "a.c").write_text("#include <stdio.h>\nint main(void) { puts(\"built\"); return 7; }\n")
        self.same("sh", "-c", "echo hello; cat /etc/hostname; exit 3")
        self.same("cc", "-o", "a.out", "a.c")
        self.assertEqual(self.same("./a.out").returncode, 7)
        self.same("sh", "-c", "exec 0<&- 1>&- 2>&-; true")
        self.same("sh", "-c", "printf x > model.pt; cat model.pt; rm model.pt; cat model.pt")
        self.same("dd", "if=/dev/zero", "of=tokens.bin", "bs=4096", "count=10", "status=none")
        self.same(sys.executable, "-S", "-c", "import os; print(open('/proc/self/comm').read(), os.getcwd() != '')")
        self.same(sys.executable, "-c", "import os\nfor i in range(8):\n  p = os.fork()\n  if p == 0: os._exit(i)\n  print(os.waitpid(p, 0)[1])")
        for tool in ("ssh", "ninja", "git"):
            if subprocess.run(["sh", "-c", f"command -v {tool}"], stdout=subprocess.DEVNULL).returncode == 0:
                self.same(tool, "-V" if tool == "ssh" else "--version")

    def test_errors_of_calls_are_the_real_ones(self):
        code = ("import os, errno\n"
                "for f in (lambda: os.open('/nowhere/x.pt', os.O_RDONLY), lambda: os.read(99, 1), lambda: os.write(99, b'x'),\n"
                "          lambda: os.close(99), lambda: os.fsync(99), lambda: os.pread(99, 1, 0)):\n"
                "  try: f()\n"
                "  except OSError as e: print(errno.errorcode[e.errno])\n")
        out = self.same(sys.executable, "-c", code).stdout.decode().split()
        self.assertEqual(out, ["ENOENT"] + ["EBADF"] * 5)

    def test_files_of_a_training_process_are_counted_by_class(self):
        env = dict(self.loaded, NCCL_PROFILER_PLUGIN=LIBRARY, RANKSCOPE_JOB="job", RANKSCOPE_RING_BYTES="4M")
        done = self.run_in(env, [TRAINER, LIBRARY, str(self.dir)])
        self.assertEqual(done.returncode, 0, done.stderr)
        import json
        report = json.loads(subprocess.run([TOOL, "report", "--json", str(self.dir / "rings" / "job")], stdout=subprocess.PIPE).stdout)
        files = report["phases"]["ranks"][0]["files"]
        # 64 MiB in pieces of 1 MiB by write, 3 MiB by fopen and write, 8 MiB read back by pread.
        self.assertEqual(files["checkpoint"], {"read_bytes": 8 << 20, "written_bytes": 67 << 20})
        self.assertEqual(files["data"], {"read_bytes": 5 << 20, "written_bytes": 0})
        self.assertIn("preload", report["gpu"]["ranks"][0]["doors"])

    def test_a_library_that_is_opened_as_a_plugin_leaves_the_process_its_own_calls(self):
        env = dict(self.plain, NCCL_PROFILER_PLUGIN=LIBRARY, RANKSCOPE_JOB="job", RANKSCOPE_RING_BYTES="4M")
        done = self.run_in(env, [TRAINER, LIBRARY, str(self.dir)])
        self.assertEqual(done.returncode, 0, done.stderr)
        import json
        report = json.loads(subprocess.run([TOOL, "report", "--json", str(self.dir / "rings" / "job")], stdout=subprocess.PIPE).stdout)
        self.assertEqual(report["gpu"]["ranks"][0]["doors"], ["nccl_plugin"])

    def test_the_price_of_inheriting_it(self):
        # Printed, not judged.
        def cost(env):
            best = 1.0
            for _ in range(5):
                begin = time.perf_counter()
                for _ in range(100):
                    os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)
                best = min(best, (time.perf_counter() - begin) / 100)
            return best * 1e6
        plain, loaded = cost(self.plain), cost(self.loaded)
        print("a process: %.0f us alone, %.0f us more with the library preloaded" % (plain, loaded - plain))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
