#!/usr/bin/env python3
"""Whether a real MPS server keeps its ends of a context's pipes when the context is destroyed, and when the client has copies of its own
ends (`keep`; `free` closes them): with one daemon of its own, without Tranche. Counts the pipes that client and server share, and the
server's descriptors, while a client makes and destroys contexts. Prints a table last and exits 1 when the pipes of destroyed contexts stay
open without a copy.

Needs root, an idle GPU with MPS, and a build; changes no setting of the GPU."""

import os, subprocess, sys, time

from gpu_bed import Machine, PlainDaemon
from rows import parsed, parser, table, title

CLIENT = r"""
import ctypes, os, sys
cuda, device, made, copies = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), [], []
def make(count):
    for _ in range(count):
        context = ctypes.c_void_p()
        code = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        if code: return code
        made.append(context)
    return 0
def drop(count):
    return max([cuda.cuCtxDestroy_v2(made.pop()) for _ in range(min(count, len(made)))], default=0)
def keep(count):
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("pipe:") and int(name) > 2: copies.append(os.dup(int(name)))
        except OSError: pass
    return drop(count)
def free(count):
    while copies: os.close(copies.pop())
    return 0
print(cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0), flush=True)
for line in sys.stdin:
    what, count = line.split()
    print({"make": make, "drop": drop, "keep": keep, "free": free}[what](int(count)), len(made), flush=True)
"""
STEPS = ("make 1", "make 8", "drop 8", "make 30", "drop 30", "make 40", "keep 40", "make 40", "drop 40", "free 0", "make 40", "drop 40")


def links(pid):
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return found


def main():
    machine = Machine(parsed(parser(__doc__)))
    daemon, rows = PlainDaemon(machine, limited=False), []
    client = subprocess.Popen([sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**machine.env, **daemon.env})
    code, contexts = client.stdout.readline().strip(), 0
    server = daemon.command("get_server_list").split()[0]
    for step in ("init 0", *STEPS):
        if step != "init 0":
            print(step, file=client.stdin, flush=True)
            code, contexts = client.stdout.readline().split()
            time.sleep(0.5)
        of_client, of_server = links(client.pid), links(server)
        pipes = {link for link in of_client if link.startswith("pipe:")} & set(of_server)
        rows.append((step, code, contexts, len(pipes), len(of_server)))
    client.kill()
    client.wait()
    daemon.stop()
    heads = ("step", "CUDA", "contexts", "pipes that client and server share", "descriptors of the server")
    print(title(machine), *table(*heads, rows=rows), sep="\n")
    machine.clean()
    return 0 if rows[1][3] == rows[3][3] == rows[5][3] else 1


if __name__ == "__main__":
    sys.exit(main())
