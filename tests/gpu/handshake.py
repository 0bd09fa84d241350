#!/usr/bin/env python3
"""The relay carries the exchange between a client and its MPS server. On a GPU with the real programs: does everything that PyTorch
does still work through it, and what happens when a tenant breaks off in the exchange, in each way that it has? Prints a table and exits
1 when a row does not hold. Needs root, an idle GPU with MPS and PyTorch; --simulated runs the same rows on the stand-ins with clients
of the driver's interface. It changes no setting of the GPU.

  programs  CUDA graphs, pinned memory, tensors shared between processes, expandable segments and exported handles, NCCL
  ways      each way to break off in turn; a neighbour's program starts afterwards, others compute on
  loop      four tenants break off in a loop while a neighbour's programs start one after the other
  closed    programs whose sockets to the server have long been closed (--minutes): new allocations, streams and contexts, limits,
            ends, and a start once the server has no client
  latency   cuInit and cuCtxCreate of a program, with a plain daemon and through the relay"""

import os, signal, statistics, subprocess, sys

from broken_off import WAYS, attack, is_named
from gpu_bed import Machine, Node, PlainDaemon, wait_for
from neighbours import Neighbours
from rows import finish, parsed, parser

PROGRAMS = r"""
import os, sys, torch
def product():
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    b = a @ a
    torch.cuda.synchronize()
    assert torch.isfinite(b.float()).all()
    return b
def other(queue, done):
    print(float(queue.get().float().sum()), flush=True)
    done.set()
if __name__ == "__main__":
    way = sys.argv[1]
    if way == "graph":
        product()  # cuBLAS cannot be set up during a capture
        x, graph = torch.ones(1024, 1024, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph): y = x @ x
        graph.replay()
        assert float(y[0, 0]) == 1024
        host = torch.empty(1 << 26, dtype=torch.uint8, pin_memory=True)
        host.copy_(torch.ones(1 << 26, dtype=torch.uint8, device="cuda"))
        assert int(host[-1]) == 1
    if way == "shared":
        import torch.multiprocessing as mp
        mp.set_start_method("spawn")
        queue, done = mp.Queue(), mp.Event()
        process = mp.Process(target=other, args=(queue, done))
        process.start()
        tensor = product()
        queue.put(tensor)
        assert done.wait(60)
        process.join(10)
        assert process.exitcode == 0
    if way == "exported":
        product()
        from ctypes import CDLL, byref, c_int, c_size_t, c_ulonglong, c_ubyte, c_ushort, c_void_p, Structure
        class Place(Structure): _fields_ = [("type", c_int), ("id", c_int)]
        class Flags(Structure): _fields_ = [("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4)]
        class Properties(Structure): _fields_ = [("type", c_int), ("handles", c_int), ("place", Place), ("windows", c_void_p), ("flags", Flags)]
        cuda, made, again, fd = CDLL("libcuda.so.1"), c_ulonglong(), c_ulonglong(), c_int(-1)
        properties = Properties(type=1, handles=1, place=Place(1, 0))
        assert cuda.cuMemCreate(byref(made), c_size_t(2 << 20), byref(properties), c_ulonglong(0)) == 0
        assert cuda.cuMemExportToShareableHandle(byref(fd), made, 1, c_ulonglong(0)) == 0
        assert cuda.cuMemImportFromShareableHandle(byref(again), c_void_p(fd.value), 1) == 0
    if way == "nccl":
        import torch.distributed as dist
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
        dist.init_process_group("nccl")
        tensor = product()
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        dist.destroy_process_group()
    print("right", flush=True)
"""
KINDS = {"graph": {}, "shared": {}, "exported": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "nccl": {}}
LOOPS = ("confirm", "shut", "hold", "unread")
MOST_MS = 3500  # on a GPU: a neighbour waits at most once for a silent client (2 s)


def programs(machine, node, args):
    tenant, failed = node.tenant("programs"), []
    for way, env in KINDS.items():
        path = os.path.join(machine.scratch, "programs.py")
        with open(path, "w") as file:
            file.write(PROGRAMS)
        done = machine.run(*tenant.enter, sys.executable, path, way, env={**tenant.envs, **env}, timeout=120)
        if done.returncode != 0 or "right" not in done.stdout:
            failed.append(f"{way}: {(done.stderr or done.stdout)[-300:]}")
    tenant.delete()
    return {"measured": f"{len(KINDS) - len(failed)} of {len(KINDS)} right", "holds": not failed, "failed": failed}


def ways(machine, node, args):
    neighbours, times, unnamed = Neighbours(machine, node), {}, []
    servers = [s["pid"] for s in node.pool()["servers"]]
    for turn in range(args.rounds):
        for way in WAYS:
            attacker = node.tenant(f"attacker-{turn}-{way}")
            process = attack(machine, attacker, way, 1)
            said, logged = process.stdout.readline(), len(node.log("mps"))
            times.setdefault(way, []).append(neighbours.start())
            if not is_named(node, attacker, way):
                unnamed.append({"way": way, "said": said, "endpoints": node.pool().get("endpoints"), "log": node.log("mps")[logged - 2000:]})
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            attacker.delete()
    attackers = [node.tenant(f"loop-{way}") for way in LOOPS]
    loops = [attack(machine, tenant, way, 0) for tenant, way in zip(attackers, LOOPS)]
    times["loop"] = [neighbours.start() for _ in range(args.starts)]
    for process in loops:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    same, dead, proof = [s["pid"] for s in node.pool()["servers"]] == servers, neighbours.dead(), node.pool()["proof"]
    neighbours.end()
    for tenant in attackers:
        tenant.delete()
    everything = [ms for each in times.values() for ms in each]
    quick = all(ms is not None and (machine.simulated or ms < MOST_MS) for ms in everything)
    tries = args.rounds * len(WAYS)
    words = f"{tries} times in {len(WAYS)} ways, and in a loop: neighbours dead {dead} of {len(neighbours.programs)}; {len(everything)} programs start in " + \
        (f"{statistics.median(everything):.0f} ms median, {max(everything)} worst" if quick else f"{times}") + \
        f"; the server {'serves on' if same else 'was replaced'}; named {tries - len(unnamed)} of {tries}"
    return {"measured": words, "holds": quick and same and dead == 0 and not unnamed, "times": times, "unnamed": unnamed, "proof": proof}


LONG = r"""
import sys, time, torch
from ctypes import CDLL, byref, c_int, c_uint64, c_void_p, c_size_t
cuda, steps, end = CDLL("libcuda.so.1"), 0, time.monotonic() + float(sys.argv[1])
free, total = torch.cuda.mem_get_info()
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
want = (a @ a).float().sum().item()
def second_context():
    context, address = c_void_p(), c_uint64()
    assert cuda.cuCtxCreate_v2(byref(context), 0, c_int(0)) == 0
    assert cuda.cuMemAlloc_v2(byref(address), c_size_t(64 << 20)) == 0
    assert cuda.cuMemFree_v2(address) == 0
    assert cuda.cuCtxDestroy_v2(context) == 0
def refused():
    torch.cuda.empty_cache()
    try: torch.empty(total, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError: return True
print("ready", flush=True)
while time.monotonic() < end:
    with torch.cuda.stream(torch.cuda.Stream()):
        grown = torch.empty((1 + steps % 64) << 24, dtype=torch.uint8, device="cuda").fill_(7)
        assert (a @ a).float().sum().item() == want and int(grown[-1]) == 7
    del grown
    if steps % 500 == 499:
        assert refused()
        second_context()
    steps += 1
assert refused()
second_context()
print("right", steps, flush=True)
"""


def closed(machine, node, args):
    path = os.path.join(machine.scratch, "long.py")
    with open(path, "w") as file:
        file.write(LONG)
    tenants = [node.tenant(f"long-{i}") for i in range(3)]
    seconds = [str(60 * args.minutes / (1 + (i == 2))) for i in range(3)]  # the last one ends at half time
    running = [subprocess.Popen([*t.enter, sys.executable, path, s], env={**machine.env, **t.envs}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for t, s in zip(tenants, seconds)]
    ends = [process.communicate() for process in running]
    failed = [err[-300:] for process, (out, err) in zip(running, ends) if process.returncode != 0 or "right" not in out]
    empty = wait_for(lambda: node.pool().get("clients", {}).get("live") == 0)
    again = tenants[0].client()
    starts = again.ready() and again.ask("info").get("code") == 0
    again.leave()
    for tenant in tenants:
        tenant.delete()
    steps = ", ".join(out.split()[-1] for out, _ in ends if "right" in out)
    return {"measured": f"{len(ends) - len(failed)} of {len(ends)} programs right for {args.minutes} minutes ({steps} steps); the server has "
                        f"{'no client then' if empty else 'clients left'}, and a program {'starts' if starts else 'DOES NOT START'}",
            "holds": not failed and bool(empty) and starts, "failed": failed}


def start_times(client, count):
    times = []
    for _ in range(count):
        one = client()
        if one.ready():
            times.append(one.first["startMs"])
        one.leave()
    return times


def latency(machine, node, args):
    tenant = node.tenant("latency")  # a tenth of the GPU, as the plain daemon's clients
    relayed = start_times(tenant.client, args.starts)
    tenant.delete()
    words = [f"{statistics.median(t):.1f} ms median of {len(t)} ({min(t):.1f} to {max(t):.1f})" if t else "none" for t in (args.plain, relayed)]
    return {"measured": f"plain daemon {words[0]}, through the relay {words[1]}", "plain": args.plain, "relayed": relayed,
            "holds": bool(args.plain and relayed) and statistics.median(relayed) - statistics.median(args.plain) <= 1}


def plain_times(machine, count):
    daemon = PlainDaemon(machine)
    holder = daemon.client()  # keeps the server, as a pool's own client does
    times = start_times(daemon.client, count) if holder.ready() else []
    holder.leave()
    daemon.stop()
    return times


ROWS = {"programs": programs, "ways": ways, "closed": closed, "latency": latency}
ON_STANDINS = ("ways",)


def main():
    options = parser(__doc__)
    options.add_argument("--only", choices=list(ROWS), action="append")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--starts", type=int, default=20)
    options.add_argument("--minutes", type=float, default=10)
    args = parsed(options)
    machine = Machine(args)
    rows = [row for row in args.only or ROWS if not machine.simulated or row in ON_STANDINS]
    args.plain = plain_times(machine, args.starts) if "latency" in rows else []
    node, results = Node(machine), {}
    try:
        for row in rows:
            results[row] = ROWS[row](machine, node, args)
    finally:
        node.stop()
    return finish(machine, results, "handshake")


if __name__ == "__main__":
    sys.exit(main())
