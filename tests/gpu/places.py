#!/usr/bin/env python3
"""An MPS server has 48 places on a GPU, one for each CUDA context, and keeps a client that has exited for as long as any process has a
copy of its channels. On a GPU with the real programs: what can a tenant take from its neighbours by that? Prints a table and exits 1 when
a row does not hold. Needs root, an idle GPU with MPS and PyTorch; --simulated runs the same rows on the stand-ins with clients of the
driver's interface. It changes no setting of the GPU.

  contexts  a tenant makes contexts until it is refused; programs of neighbours start, also when all ten shares are taken
  kept      the same, and it destroys each context at once and keeps copies of its channels
  again     a tenant that has as many contexts as it may have destroys one and makes one, without a pause: none is refused
  leaves    programs with contexts are killed, without a fork: their places are free at once
  memory    a tenant's programs take their whole share, fork and exit, one after the other: the memory of the GPU stays the neighbours'
  hidden    the same, and the copies lie in the queue of a socket
  ended     a pod whose client has exited and left a fork is deleted: nothing of it remains"""

import os, signal, statistics, subprocess, sys, time

from gpu_bed import Machine, Node, find, signal_to, wait_for
from neighbours import Neighbours
from rows import finish, parsed, parser

# $1: contexts COUNT | kept COUNT | again COUNT | fork MIB | hide MIB. Prints a line of numbers; the first three then wait, the others exit.
TENANT = r"""
import ctypes, os, signal, socket, sys, time
way, amount = sys.argv[1], int(sys.argv[2])
cuda, device, made, code = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), [], 0
code = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0)
copies = []
def channels(): return {int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and os.path.exists("/proc/self/fd/" + fd)}
while code == 0 and len(made) < (1 if way in ("fork", "hide") else 200 if way == "again" else amount):
    context, before = ctypes.c_void_p(), channels()
    code = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
    if code == 0: made.append(context)
    if way == "kept" and code == 0 and len(made) > 1:  # the first stays
        copies += [os.dup(fd) for fd in channels() - before if not os.readlink("/proc/self/fd/%d" % fd).startswith("/")]
        code = cuda.cuCtxDestroy_v2(context)
def again(times):
    refused, took = 0, []
    for _ in range(times):
        began, context = time.monotonic(), ctypes.c_void_p()
        cuda.cuCtxDestroy_v2(made.pop())
        code = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        refused += code != 0
        while cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) if code else 0: time.sleep(0.01)
        made.append(context)
        took.append((time.monotonic() - began) * 1000)
    return refused, int(sorted(took)[times // 2])
if way == "again":
    count, at_limit = len(made), again(amount)
    for _ in range(5): cuda.cuCtxDestroy_v2(made.pop())
    print(count, *at_limit, *again(amount), flush=True)
    signal.pause()
if way in ("contexts", "kept"):
    print(len(made), code, flush=True)
    signal.pause()
address = ctypes.c_uint64()
code = code or cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(amount << 20))
ours, theirs = socket.socketpair()
held = [int(fd) for fd in os.listdir("/proc/self/fd")]
if way == "hide":
    for fd in held:
        if fd > 2 and fd not in (ours.fileno(), theirs.fileno()):
            try: socket.send_fds(ours, [b"x"], [fd])
            except OSError: pass
child = os.fork()
if child == 0:
    os.setsid()
    if way == "hide":
        for fd in held:
            if fd not in (0, 1, 2, ours.fileno(), theirs.fileno()):
                try: os.close(fd)
                except OSError: pass
    devnull = os.open("/dev/null", os.O_RDWR)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    time.sleep(3600)
print(code, child, flush=True)
os._exit(0)
"""
AGAIN = 30
ROUNDS = 12  # programs that exit one after the other, each with most of a share of a tenth


def start(machine, tenant, *words):
    return subprocess.Popen([*tenant.enter, sys.executable, "-W", "ignore", "-c", TENANT, *map(str, words)], stdout=subprocess.PIPE, text=True,
                            env={**machine.env, **tenant.envs}, start_new_session=True)


def share_mib(node, tenant):
    endpoint = next(e for e in node.pool()["endpoints"] if e["grant"] in tenant.endpoint)
    return endpoint["limits"][0]["memoryMiB"]


def held_mib(node, tenant):
    """What a tenant's processes hold, those included that have exited."""
    return sum(p["memoryMiB"] for p in find(node.status(), lambda each: "mpsClient" in each) if p.get("grant") and p["grant"] in tenant.endpoint)


def contexts(machine, node, neighbours, way="contexts"):
    tenant = node.tenant(f"many-{way}")
    process = start(machine, tenant, way, 200)
    made, code = map(int, process.stdout.readline().split())
    others = [node.tenant(f"other-{i}") for i in range(node.SLOTS - len(neighbours.tenants) - 2)]
    clients = [other.client() for other in others]
    ready = sum(client.ready() for client in clients)
    begun, alive = neighbours.start(), process.poll() is None
    for client in clients:
        client.kill()
    process.kill()
    process.wait()
    dead = neighbours.dead()
    for each in (tenant, *others):
        each.delete()
    return {"measured": f"{made} contexts, then CUDA error {code}; {ready} of {len(others)} other tenants' programs start, one more of a neighbour in {begun} ms; "
                        f"neighbours dead {dead}",
            "holds": 1 <= made < 48 and code != 0 and ready == len(others) and begun is not None and dead == 0 and alive}


def kept(machine, node, neighbours):
    return contexts(machine, node, neighbours, "kept")


def again(machine, node, neighbours):
    tenant = node.tenant("again")
    process = start(machine, tenant, "again", AGAIN)
    made, refused, took, below, took_below = map(int, process.stdout.readline().split())
    process.kill()
    process.wait()
    dead = neighbours.dead()
    tenant.delete()
    return {"measured": f"with {made} contexts, {AGAIN} times destroyed one and made one: {refused} refused, {took} ms median ({took_below} with 5 contexts less); "
                        f"neighbours dead {dead}",
            "holds": refused == 0 and below == 0 and dead == 0}


def acts_on(node, tenant):
    return [a for a in node.status().get("guard", {}).get("acts", []) if a.get("grant") and a["grant"] in tenant.endpoint]


def exits(machine, node, neighbours, way):
    tenant = node.tenant(f"exits-{way}")
    share, most, codes, children, begin = share_mib(node, tenant), 0, [], [], time.monotonic()
    amount = share * 2 // 3
    for _ in range(ROUNDS):
        process = start(machine, tenant, way, amount)
        line = process.stdout.readline().split()
        process.wait()
        if way == "hide" and not line and codes and wait_for(lambda: acts_on(node, tenant)):
            break  # no process shows the copies, so the guard has ended the whole container
        codes.append(line[0])
        children.append(int(line[1]))
        most = max(most, held_mib(node, tenant))
    took = time.monotonic() - begin
    settled = wait_for(lambda: held_mib(node, tenant) <= share)
    over = acts_on(node, tenant)
    begun, dead = neighbours.start(), neighbours.dead()
    attributed = wait_for(lambda: node.status().get("guard", {}).get("unattributed", []) == [])  # its samples may lag behind the relay's clients
    tenant.delete()
    started = codes.count("0")
    for child in children:  # a container of this bed has no pid namespace that would end them
        signal_to(child, signal.SIGKILL)
    return {"measured": f"{ROUNDS} programs of {amount} MiB in {took:.0f} s ({started} got it): {most} MiB at most of {share}, {'within it' if settled else 'over it'} in the end; "
                        f"{len(over)} acts of the guard; neighbours dead {dead}, one more starts in {begun} ms; all attributed: {bool(attributed)}",
            "holds": bool(settled) and most <= 2 * share and dead == 0 and begun is not None and bool(attributed), "codes": codes, "acts": over}


def memory(machine, node, neighbours):
    return exits(machine, node, neighbours, "fork")


def hidden(machine, node, neighbours):
    return exits(machine, node, neighbours, "hide")


def ended(machine, node, neighbours):
    tenant = node.tenant("deleted")
    process = start(machine, tenant, "fork", share_mib(node, tenant) // 2)
    code = process.stdout.readline().split()[0]
    process.wait()
    listed = lambda: process.pid in [client for server in node.pool()["servers"] for client in server["clients"]]
    seen = wait_for(lambda: listed() and held_mib(node, tenant))
    tenant.delete()
    later = node.tenant("later")  # gets the share of the pod that was deleted
    gone = wait_for(lambda: not listed())
    client = later.client()
    ready = client.ready()
    client.kill()
    dead = neighbours.dead()
    later.delete()
    return {"measured": f"CUDA {code}; counted while it lasts: {'yes' if seen else 'no'}; when the next pod has the share: {'gone' if gone else 'still listed'}, its program "
                        f"{'starts' if ready else 'does not start'}; neighbours dead {dead}",
            "holds": code == "0" and bool(seen) and bool(gone) and ready and dead == 0}


def leaves(machine, node, neighbours):
    tenant, times = node.tenant("leaves"), []
    endpoint = lambda: next(e for e in node.pool()["endpoints"] if e["grant"] in tenant.endpoint)
    for number in range(10):
        process = start(machine, tenant, "contexts", 1 + number % 3)
        process.stdout.readline()
        process.kill()
        process.wait()
        began = time.monotonic()
        free = wait_for(lambda: (seen := endpoint())["places"] == 0 and not seen["remnants"])
        times.append((time.monotonic() - began) * 1000 if free else 99999)
    dead = neighbours.dead()
    tenant.delete()
    return {"measured": f"10 clients with 1 to 3 contexts are killed: their places are free after {statistics.median(times):.0f} ms median, {max(times):.0f} worst; neighbours dead {dead}",
            "holds": max(times) < (99999 if machine.simulated else 2000) and dead == 0, "ms": times}


ROWS = {"contexts": contexts, "kept": kept, "again": again, "leaves": leaves, "memory": memory, "hidden": hidden, "ended": ended}


def main():
    options = parser(__doc__)
    options.add_argument("--only", choices=list(ROWS), action="append")
    args = parsed(options)
    machine = Machine(args)
    node, results = Node(machine), {}
    try:
        neighbours = Neighbours(machine, node)
        for row in args.only or ROWS:
            results[row] = ROWS[row](machine, node, neighbours)
        neighbours.end()  # kills them while they compute, which may end them all: nothing runs after it
    finally:
        if os.environ.get("SHOW") or not all(result["holds"] for result in results.values()):
            node.show_logs()
        node.stop()
    return finish(machine, results, "places")


if __name__ == "__main__":
    sys.exit(main())
