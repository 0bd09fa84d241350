"""Processes with 65,536 supplementary groups, whose status takes the kernel tens of milliseconds to write, and a tenant that has its
container's processes looked at as often as it can: with many threads that block the stop signal, with clients that handle it, and with
paused clients that get their groups only after the request. `tranche mps` continues to serve, and neighbours' programs start."""

import os, signal, subprocess, sys, time

from bed import cpu_seconds, main, wait_for

# $1: threads | handlers | paused. Asks for drains of its own container when a line comes, and hangs up.
TENANT = r"""
import ctypes, os, signal, socket, sys, threading, time
signals = (15, 10, 12, 3)
def connect(groups=65536):
    cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
    code = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
    take(groups)
    return code
def take(groups): os.setgroups([4000000000 - i for i in range(groups)])
def request():
    to = socket.socket(socket.AF_UNIX)
    to.connect(os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/drain")
    to.sendall(b"drain\n")
    return to
if sys.argv[1] == "threads":
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    code = connect()
    threading.stack_size(65536)
    for _ in range(450): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
elif sys.argv[1] == "paused":
    signal.signal(15, lambda *_: None)
    reader, writer = os.pipe()
    clients, code = {}, 0
    for _ in range(24):
        orders, order = os.pipe()
        if (client := os.fork()) == 0:
            os.write(writer, b"%d" % connect(0))
            while True: take(2600 if os.read(orders, 1) == b"+" else 0)
        clients[client], code = order, code + int(os.read(reader, 1))
else:
    for number in signals: signal.signal(number, lambda *_: None)
    reader, writer = os.pipe()
    for _ in range(11):
        if os.fork() == 0:
            os.write(writer, b"%d" % connect())
            while True: time.sleep(3600)
    code = sum(int(os.read(reader, 1)) for _ in range(11))
if os.fork() == 0:
    sys.stdin.readline()
    if sys.argv[1] != "paused":
        for _ in range(24):
            request().close()
            time.sleep(0.25)
    while sys.argv[1] == "paused":  # each request renews the pause
        with request():
            time.sleep(0.15)
        for client in clients: os.kill(client, signal.SIGCONT)
        for order in clients.values(): os.write(order, b"+")
        time.sleep(2.2)
        for order in clients.values(): os.write(order, b"-")
        time.sleep(0.15)
    os._exit(0)
print(code, flush=True)
os.wait()
print("asked", flush=True)
while True: time.sleep(3600)
"""


def run(bed, checks):
    if bed.machine.containers != "namespaces":
        return print("   not run: many groups need root")
    neighbour = bed.tenant("neighbour")
    stays = neighbour.client()  # clients are paused only while a neighbour has some
    checks.check("a neighbour's client starts", stays.ready())
    for way in ("threads", "handlers", "paused"):
        tenant = bed.tenant(way)
        process = subprocess.Popen([*tenant.enter, sys.executable, "-W", "ignore", "-c", TENANT, way], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env={**bed.machine.env, **tenant.envs}, start_new_session=True)
        try:
            checks.check(f"{way}: the tenant's programs start", process.stdout.readline() == "0\n")
            spent, begun, starts = cpu_seconds(bed.pid("mps")), time.monotonic(), []
            process.stdin.write("\n")
            process.stdin.flush()
            while time.monotonic() < begun + 7:
                client = neighbour.client()
                starts.append(client.ready())
                client.kill()
                time.sleep(0.2)
            spent, took = cpu_seconds(bed.pid("mps")) - spent, time.monotonic() - begun
            checks.check(f"{way}: a neighbour's programs start", all(starts), starts)
            checks.check(f"{way}: `tranche mps` takes less than half a CPU for it", spent < took / 2, f"{spent:.2f} of {took:.2f} s")
            checks.check(f"{way}: all slots are healthy", bed.all_healthy(), bed.healthy())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            tenant.delete()
            wait_for(lambda: sum(e["places"] for e in bed.pool()["endpoints"]) == 1)  # the next tenant needs them
    stays.kill()


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
