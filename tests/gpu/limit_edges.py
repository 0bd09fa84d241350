#!/usr/bin/env python3
"""Does a client that takes all its memory limit allows ever show more than the limit by NVML, which the guard goes by? A plain daemon,
one client for each limit, which looks for its largest allocation in steps of 1 MiB and holds it; what NVML says of it is read all the
while. Prints a table. Needs root and an idle GPU with MPS. It changes no setting of the GPU."""

import argparse, ctypes, subprocess, sys, threading

from gpu_bed import Machine, PlainDaemon
from rows import clean, parsed, parser
from stop_moments import gpus

MIB = 1 << 20


def client():
    """Finds the largest allocation, holds it, ends when its input does."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    for code in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))):
        if code:
            print("failed", code, flush=True)
            return
    low, high = 0, (total.value >> 20) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(middle * MIB)) == 0:
            cuda.cuMemFree_v2(pointer)
            low = middle
        else:
            high = middle
    cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(low * MIB))
    print("holds", low, total.value >> 20, flush=True)
    sys.stdin.read()


def used(nvml, gpu, pid):
    return max((each.usedGpuMemory or 0 for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu) if each.pid == pid), default=0)


def measure(machine, daemon, nvml, gpu, limit, percent):
    env = {**machine.env, **daemon.env, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={limit}M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}
    process = subprocess.Popen([sys.executable, __file__, "--client"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    seen, done = [0], threading.Event()

    def watch():
        while not done.is_set():
            seen.append(used(nvml, gpu, process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    words = process.stdout.readline().split()
    held = [used(nvml, gpu, process.pid) for _ in range(5)]
    done.set()
    watcher.join()
    process.stdin.close()
    process.wait()
    if words[:1] != ["holds"]:
        return f"| {limit} MiB, {percent} % | {' '.join(words)} | | |"
    return f"| {limit} MiB, {percent} % | {words[1]} MiB | {max(held) / MIB:.2f} MiB ({max(held) / MIB - limit:+.2f}) | {max(seen) / MIB:.2f} MiB ({max(seen) / MIB - limit:+.2f}) |"


def main():
    made = parser(__doc__)
    made.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    args = parsed(made)
    if args.client:
        return client()
    machine = Machine(args)
    daemon, (nvml, (gpu,)) = PlainDaemon(machine, limited=False), gpus(1)
    print("| limit | largest allocation | NVML, held | NVML, highest ever |\n| --- | --- | --- | --- |", flush=True)
    try:
        for limit in (1024, 7188, 14377, 35942, 50319, 60000, 65536, 71885, 71886, 90001, 100639, 115016, 128001):
            print(measure(machine, daemon, nvml, gpu, limit, 50), flush=True)
        for percent in (5, 10, 100):
            print(measure(machine, daemon, nvml, gpu, 71885, percent), flush=True)
    finally:
        daemon.stop()
    clean(machine)


if __name__ == "__main__":
    main()
