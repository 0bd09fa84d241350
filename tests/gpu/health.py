#!/usr/bin/env python3
"""Health on a real GPU: a program of this script's own stores to an address that does not exist (XID 13 or 31), and the
node agent sees it. By default that is the program's affair and the GPU stays healthy; with DP_ENABLE_HEALTHCHECKS its
slots become unhealthy and are healthy again after a quiet period, without a restart. Prints a table and exits 1 when a
row does not hold. Needs root, an idle GPU, and BIN and STANDINS of a build. Changes no setting of the GPU."""

import argparse, ctypes, json, os, subprocess, sys, time

from gpu_bed import Machine, Node, wait_for
from rows import clean, parsed, parser, promises, title

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry stray() {
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  mov.u64 %rd1, 1311768467294899695;
  mov.u32 %r1, 7;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""
QUIET = 3


def stray_store():
    """In a process of its own: CUDA's status of the synchronisation after the store."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    for status in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
                   cuda.cuModuleLoadData(ctypes.byref(module), PTX),
                   cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"stray"),
                   cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)):
        if status != 0:
            sys.exit(f"CUDA status {status} before the store")
    return cuda.cuCtxSynchronize()


class Watched(Node):
    """A node without sharing, with more flags and variables for `tranche node`."""

    LOG_FORMAT, CONFIG = "json", "version: v1\n"

    def __init__(self, machine, *flags, **variables):
        self.flags, self.SLOTS = flags, machine.gpu["visible"]
        machine.env.update(variables)
        super().__init__(machine)

    def node_options(self):
        return self.flags

    def device(self):
        return (self.status().get("devices") or [{}])[0]

    def wait(self, healthy, seconds=30):
        """Seconds until the device is so; None when it never is."""
        began = time.monotonic()
        return time.monotonic() - began if wait_for(lambda: self.device().get("healthy") is healthy, seconds) else None

    def events(self, name):
        return [line for line in map(json.loads, self.log("node").splitlines()) if line.get("event") == name]


def main():
    made = parser(__doc__)
    made.add_argument("--stray", action="store_true", help=argparse.SUPPRESS)
    args = parsed(made)
    if args.stray:
        return stray_store() % 256

    def stray():
        return subprocess.run([sys.executable, os.path.abspath(__file__), "--stray"], check=False).returncode

    machine, rows = Machine(args), []

    def row(what, seen, holds):
        rows.append((what, "", seen, holds))

    node = Watched(machine)
    row("watched: the events of the GPU are registered", node.events("gpu.unwatched") or "no complaint", not node.events("gpu.unwatched") + node.events("gpu.unsupported"))
    status = stray()
    fell = node.wait(False, 3)
    xids = node.events("gpu.xid")
    row("a stray store: an XID is seen, of class application", [(x["xid"], x["class"]) for x in xids], bool(xids) and all(x["class"] == "application" for x in xids))
    row("the program fails, the GPU stays healthy", f"exit status {status}, CUDA's modulo 256 (700 is 188)", status != 0 and fell is None)
    number = str(xids[0]["xid"]) if xids else "13"
    node.stop()

    node = Watched(machine, "--health-quiet-period", f"{QUIET}s", DP_ENABLE_HEALTHCHECKS=number)
    stray()
    fell = node.wait(False, 5)
    cause = node.device()
    row(f"DP_ENABLE_HEALTHCHECKS={number}: its slots become unhealthy", f"{fell:.1f} s after the program ended, cause {cause.get('cause')}" if fell is not None else "never", fell is not None and fell < 2)
    back = node.wait(True, 30)
    row(f"healthy again after {QUIET} quiet seconds, without a restart", f"{back:.1f} s later" if back is not None else "never", back is not None and back < QUIET + 2)
    stray()
    node.wait(False, 5)
    again = node.wait(True, 60)
    row("a second fault doubles the quiet period", f"{again:.1f} s" if again is not None else "never", again is not None and 2 * QUIET - 1 < again < 2 * QUIET + 2)
    node.stop()

    print(title(machine))
    promises(rows)
    return 1 if clean(machine) or not all(holds for *_, holds in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
