"""CUDA processes whose mount table takes the kernel seconds to write, beside MPS as well as through it: thousands of mounts of a deep
directory in a user namespace of their own; volume mounts of the pod whose directory they move deep down. Both are beside their root
directory. `tranche node` continues to answer, and stops a neighbour's client that exceeds its share."""

import os, signal, subprocess, sys, threading, time

from bed import cpu_seconds, line_of, main, state, wait_for

PROCESSES = 3
WAYS = {"users": (3000, 10000), "volumes": (50, 100000)}  # mounts, depth
CONFIG = """version: v1
sharing:
  mps:
    computeMode: leave
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
"""

TENANT = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
NEW_USERS, NEW_MOUNTS, BIND, RECURSIVE, PRIVATE = 0x10000000, 0x20000, 0x1000, 0x4000, 0x40000
def must(result, what):
    if result != 0: raise OSError(ctypes.get_errno(), what)
way, mounts, depth, processes = sys.argv[1], *map(int, sys.argv[2:])
user, group = os.getuid(), os.getgid()
if libc.unshare(NEW_MOUNTS | (NEW_USERS if way == "users" else 0)) != 0:
    print("no namespaces", flush=True)
    sys.exit()
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")) if way == "users" else ():
    with open("/proc/self/" + name, "w") as file: file.write(text)
must(libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None), "private mounts")
must(libc.mount(b"t", b"/mnt", b"tmpfs", 0, b""), "a tmpfs")
for name in ("root", "volume", "mounts"): os.mkdir("/mnt/" + name)
must(libc.mount(b"/", b"/mnt/root", None, BIND | RECURSIVE, None), "a root directory")
for i in range(mounts):
    os.mkdir(f"/mnt/mounts/{i}")
    must(libc.mount(b"/mnt/volume", f"/mnt/mounts/{i}".encode(), None, BIND, None), "a mount")
os.chdir("/mnt")
for _ in range(depth):
    os.mkdir("d")
    os.chdir("d")
os.rename("/mnt/volume", "volume")
os.chroot("/mnt/root")
os.chdir("/")
print("mounted", flush=True)
sys.stdin.readline()
reader, writer = os.pipe()
if way == "volumes": os.environ["CUDA_MPS_PIPE_DIRECTORY"] = "/nowhere"
for _ in range(processes):
    if os.fork() == 0:
        cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        code = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        os.write(writer, b"%d" % code)
        while True: time.sleep(3600)
print(sum(int(os.read(reader, 1)) for _ in range(processes)), flush=True)
while True: time.sleep(3600)
"""


def cost_of_a_table(pid):
    """CPU seconds."""
    begin = time.thread_time()
    with open(f"/proc/{pid}/mountinfo") as file:
        file.read()
    return time.thread_time() - begin


def run(bed, checks):
    if bed.machine.containers != "namespaces":
        return print("   not run: mounts in a container need root")
    neighbour = bed.tenant("neighbour")
    for way, (mounts, depth) in WAYS.items():
        attack(bed, checks, neighbour, way, mounts, depth)


def attack(bed, checks, neighbour, way, mounts, depth):
    tenant = bed.tenant(way)
    clients = [neighbour.client()]
    checks.check(f"{way}: a neighbour's client starts", clients[0].ready() and clients[0].ask("alloc 30000")["code"] == 0)
    process = subprocess.Popen([*tenant.enter, sys.executable, "-W", "ignore", "-c", TENANT, way, str(mounts), str(depth), str(PROCESSES)],
                               text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**bed.machine.env, **tenant.envs},
                               start_new_session=True)
    answers, over = [], threading.Event()

    def ask():
        while not over.wait(0.2):
            answers.append(bool(line_of(bed.path("run/node.sock"), "status")))

    asking = threading.Thread(target=ask)
    try:
        mounted = process.stdout.readline()
        if mounted.startswith("no "):
            return print(f"   {way}: not run: no namespaces here")
        checks.check(f"{way}: the tenant has its mounts", mounted == "mounted\n", mounted)
        clients.append(neighbour.client())
        checks.check(f"{way}: a second client of the neighbour starts", clients[1].ready())
        spent = cpu_seconds(bed.pid("node"))
        asking.start()
        process.stdin.write("\n")
        process.stdin.flush()
        checks.check(f"{way}: the tenant's programs start", process.stdout.readline() == "0\n")
        clients[1].ask("alloc 30000")
        checks.check(f"{way}: the guard stops it", wait_for(lambda: state(clients[1].pid) in ("T", "Z", "")))
        over.wait(2)
        over.set()
        asking.join()
        checks.check(f"{way}: `tranche node` answers meanwhile", answers and all(answers), len(answers))
        spent, one = cpu_seconds(bed.pid("node")) - spent, cost_of_a_table(process.pid)
        checks.check(f"{way}: `tranche node` has taken less CPU than one of these tables costs", spent < one, f"{spent:.2f} s, {one:.2f} s")
        checks.check(f"{way}: all slots are healthy", bed.all_healthy(), bed.healthy())
    finally:
        over.set()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for client in clients:
            client.kill()
        tenant.delete()


if __name__ == "__main__":
    sys.exit(main(run, __doc__, config=CONFIG))
