"""A tenant's CUDA programs lose their container's mounts (chroot), and `tranche mps` is killed and starts again. The endpoint's mount is
how it finds whose a running client is; these are their tenant's all the same, who gets no places beside them, and a neighbour's
promised program starts. The executable of a later one has 60 MiB, which `tranche mps` does not read into its memory."""

import os, shutil, signal, subprocess, sys

from bed import main, wait_for

PROGRAMS = 30
TENANT = r"""
import ctypes, os, signal, sys
for _ in range(int(sys.argv[1])):
    if os.fork() == 0: break
else:
    sys.stdin.read()
    os.killpg(0, 9)
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
code = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
os.chroot(sys.argv[2])
os.write(1, b"%d\n" % code)
while True: signal.pause()
"""


def programs(bed, tenant, count, program=sys.executable):
    empty = bed.path("empty")
    os.makedirs(empty, exist_ok=True)
    process = subprocess.Popen([*tenant.enter, program, "-c", TENANT, str(count), empty], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**tenant.node.machine.env, **tenant.envs}, start_new_session=True)
    return process, [process.stdout.readline().strip() for _ in range(count)]


def clients(bed, tenant):
    return next((len(e["clients"]) for e in bed.pool()["endpoints"] if e["grant"] in tenant.endpoint), 0)


def run(bed, checks):
    hostile, neighbour = bed.tenant("hostile"), bed.tenant("neighbour")
    first, codes = programs(bed, hostile, PROGRAMS)
    checks.check(f"{PROGRAMS} programs start, and lose their mounts", set(codes) == {"0"} and wait_for(lambda: clients(bed, hostile) == PROGRAMS), clients(bed, hostile))
    bed.end("mps", signal.SIGKILL)
    bed.start("mps")
    checks.check("all slots are healthy again", bed.all_healthy())
    checks.check("after a restart they are their tenant's", wait_for(lambda: clients(bed, hostile) == PROGRAMS), clients(bed, hostile))
    large = bed.path("python3")
    shutil.copy(os.path.realpath(sys.executable), large)
    os.truncate(large, 60 << 20)
    one, codes = programs(bed, hostile, 1, large)
    checks.check("a program whose executable has 60 MiB starts", codes == ["0"], codes)
    more, codes = programs(bed, hostile, PROGRAMS)
    checks.check("the tenant gets no place that is kept for the neighbour", 0 < codes.count("0") < PROGRAMS, codes)
    client = neighbour.client()
    checks.check("the neighbour's program starts", client.ready() and client.ask("run").get("code") == 0)
    client.leave()
    # The neighbour's client has just exited: a sample may list it a moment longer than the relay does.
    known = wait_for(lambda: bed.status().get("guard", {}).get("unattributed") == [])
    checks.check("the guard knows whose they are", known, bed.status().get("guard", {}).get("notInForce"))
    for process in (first, one, more):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main(run, __doc__, slots=2))
