"""rankscope's hook for Python: marks what no native source shows.

On PYTHONPATH (rankscope run --hook) Python imports it in every interpreter, before the user's code. It does two things:

- It sets CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH where they are not set and rankscope's library is known: PYTHONPATH and NCCL_*
  reach the workers of launchers that drop the rest, and both variables are read later than now.
- When torch's modules have been imported by somebody, it puts marks around DataLoader waits, optimizer steps, torch.save and load,
  checkpoints, and names process groups; and around long garbage collections.

It never imports torch, prints nothing, keeps every exception to itself, and changes nothing that the user's code could see but
wrapped functions. RANKSCOPE_HOOK=0 turns it off. Only the first sitecustomize is imported by Python: the next one on sys.path is
run from here.
"""
import os
import sys

_PUSH, _POP, _MARK, _GROUP = 1, 2, 3, 4


def _setting(name):
    return os.environ.get("RANKSCOPE_" + name) or os.environ.get("NCCL_RANKSCOPE_" + name)


def _library_path():
    for name in ("RANKSCOPE_LIBRARY", "NCCL_PROFILER_PLUGIN"):
        path = os.environ.get(name, "")
        if os.path.basename(path) in ("librankscope.so", "libnccl-profiler-rankscope.so") and os.path.isabs(path):
            return path
    return None


class _Recorder:
    """The library's entry, once the library is in the process; calls before that do nothing."""

    def __init__(self, path):
        self.path = path
        self.call = None
        self.looks = 0

    def find(self):
        # Opening would load it: only where somebody else has. A look costs a few microseconds, so not at every call.
        self.looks += 1
        if self.looks > 64 and self.looks % 256:
            return None
        try:
            import ctypes

            mode = getattr(os, "RTLD_NOLOAD", 4) | getattr(os, "RTLD_NOW", 2)
            entry = ctypes.CDLL(self.path, mode=mode).rankscope_hook_v1
            entry.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_ulonglong)
            entry.restype = ctypes.c_int
            self.call = entry
        except Exception:
            return None
        return self.call

    def __call__(self, operation, name, value=0):
        call = self.call or self.find()
        if call is None:
            return False
        try:
            call(operation, name, value)
            return True
        except Exception:
            return False


def _wrap(function, name, recorder):
    """`function` with a range around each call."""
    import functools

    if getattr(function, "_rankscope", False):
        return function

    @functools.wraps(function)
    def marked(*args, **kwargs):
        pushed = recorder(_PUSH, name)
        try:
            return function(*args, **kwargs)
        finally:
            if pushed:
                recorder(_POP, None)

    marked._rankscope = True
    return marked


def _wrap_attribute(owner, attribute, name, recorder):
    function = owner.__dict__.get(attribute) if isinstance(owner, type) else getattr(owner, attribute, None)
    if callable(function):
        setattr(owner, attribute, _wrap(function, name, recorder))


def _patch_dataloader(module, recorder):
    # Each kind of iterator has the same __next__; what the user waits for is in there.
    base = getattr(module, "_BaseDataLoaderIter", None)
    if base is not None:
        _wrap_attribute(base, "__next__", b"data_loading", recorder)


def _patch_optimizer(module, recorder):
    # Every optimizer's step goes through this decorator, which Optimizer.__init__ applies to the class once.
    base = getattr(module, "Optimizer", None)
    hook = getattr(base, "profile_hook_step", None) if base is not None else None
    if hook is None:
        return

    def profile_hook_step(function):
        return hook(_wrap(function, b"optimizer", recorder))

    base.profile_hook_step = staticmethod(profile_hook_step)


def _patch_serialization(module, recorder):
    _wrap_attribute(module, "save", b"checkpoint_save", recorder)
    _wrap_attribute(module, "load", b"checkpoint_load", recorder)
    # torch.save is the same function under another name.
    torch = sys.modules.get("torch")
    for name in ("save", "load"):
        if torch is not None and getattr(torch, name, None) is not None:
            setattr(torch, name, getattr(module, name))


def _patch_distributed_checkpoint(module, recorder):
    for name in ("save", "save_state_dict"):
        _wrap_attribute(module, name, b"checkpoint_save", recorder)
    for name in ("load", "load_state_dict"):
        _wrap_attribute(module, name, b"checkpoint_load", recorder)


def _patch_distributed(module, recorder):
    import functools

    new_group = getattr(module, "new_group", None)
    if not callable(new_group) or getattr(new_group, "_rankscope", False):
        return

    @functools.wraps(new_group)
    def named(*args, **kwargs):
        group = new_group(*args, **kwargs)
        try:
            ranks = kwargs.get("ranks", args[0] if args else None)
            text = kwargs.get("group_desc") or getattr(group, "group_desc", None) or "group"
            count = len(ranks) if ranks is not None else 0
            recorder(_GROUP, str(text).encode("utf-8", "replace")[:200], count)
        except Exception:
            pass
        return group

    named._rankscope = True
    module.new_group = named


_PATCHES = {
    "torch.utils.data.dataloader": _patch_dataloader,
    "torch.optim.optimizer": _patch_optimizer,
    "torch.serialization": _patch_serialization,
    "torch.distributed.checkpoint": _patch_distributed_checkpoint,
    "torch.distributed.distributed_c10d": _patch_distributed,
}


class _AfterImport:
    """A finder that finds nothing itself: it lets the others find a module of _PATCHES, and patches it when it has been run."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.busy = set()

    def find_spec(self, name, path=None, target=None):
        patch = _PATCHES.get(name)
        if patch is None or name in self.busy:
            return None
        self.busy.add(name)
        try:
            import importlib.util

            spec = importlib.util.find_spec(name)
        except Exception:
            return None
        finally:
            self.busy.discard(name)
        loader = getattr(spec, "loader", None)
        run = getattr(loader, "exec_module", None)
        if run is None:
            return spec
        recorder = self.recorder

        def exec_module(module):
            run(module)
            try:
                patch(module, recorder)
            except Exception:
                pass

        try:
            loader.exec_module = exec_module
        except Exception:
            pass
        return spec


def _watch_garbage_collection(recorder):
    """Ranges for collections of the oldest generation: they stop everything, and are the ones that take long."""
    import atexit
    import gc

    def on_collection(phase, info):
        try:
            if info.get("generation", 0) < 2:
                return
            if phase == "start":
                state.append(recorder(_PUSH, b"gc"))
            elif state and state.pop():
                recorder(_POP, None)
        except Exception:
            pass

    def stop():
        # The interpreter's own last collection is not the training's.
        try:
            gc.callbacks.remove(on_collection)
        except Exception:
            pass

    state = []
    gc.callbacks.append(on_collection)
    atexit.register(stop)


def _chain():
    """Runs the sitecustomize that would have been imported if this one were not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in sys.path:
        try:
            path = os.path.join(folder or os.getcwd(), "sitecustomize.py")
            if os.path.abspath(os.path.dirname(path)) == here or not os.path.isfile(path):
                continue
        except Exception:
            continue
        import importlib.util

        spec = importlib.util.spec_from_file_location("sitecustomize", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)  # its errors are the user's, as they would be without us
        return


def _start():
    if _setting("HOOK") == "0":
        return
    path = _library_path()
    if path is None:
        return
    if _setting("DISABLE") not in (None, "", "0"):
        return
    for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
        os.environ.setdefault(name, path)
    recorder = _Recorder(path)
    sys.meta_path.insert(0, _AfterImport(recorder))
    _watch_garbage_collection(recorder)


try:
    _start()
except Exception:
    pass
_chain()
