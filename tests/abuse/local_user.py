"""A user of the node without rights, outside of containers, reaches nothing of MPS, also where an older version let every user pass; a
tenant of any user still does, through what its container was given."""

import os, sys

from bed import Client, main

NOBODY = 65534

# Tries to open, connect to and list everything below $1 and prints what it could, each path relative to $1.
REACH = """
import os, socket, sys
root, reached = sys.argv[1], []
def attempt(path, what, act):
    try:
        act()
        reached.append(what + " " + os.path.relpath(path, root))
    except OSError:
        pass
def connect(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.settimeout(2)
        s.connect(path)
for path in sys.argv[2:]:
    if path.endswith(("control", "control_privileged", ".sock")):
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            attempt(path, "connect", lambda: connect(path, kind))
    elif path.endswith("/"):
        attempt(path, "list", lambda: os.listdir(path))
    else:
        attempt(path, "read", lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
        attempt(path, "write", lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
print(*reached, sep=", ")
"""


def everything(bed):
    """What lies below the MPS root, as root sees it; folders end with a slash."""
    for folder, names, files in os.walk(bed.path("mps")):
        yield from (os.path.join(folder, name) + "/" for name in names)
        yield from (os.path.join(folder, name) for name in files)


def reached_by_nobody(bed):
    paths = [p for p in everything(bed) if not p.endswith(("/compute-mode.json", "/other-holders"))]  # for every reader
    done = bed.machine.run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c", REACH,
                           bed.path("mps"), *paths)
    return done.stdout.strip() + done.stderr[-300:]


def mode(path):
    return oct(os.stat(path).st_mode & 0o7777)


def others_may_enter(folder):
    return os.path.dirname(folder) == folder or (os.stat(folder).st_mode & 1 and others_may_enter(os.path.dirname(folder)))


def run(bed, checks):
    if os.geteuid() != 0:
        return print("   skip: needs root to become another user")
    tenant = bed.tenant("tenant")
    client = tenant.client()
    checks.check("a tenant's program runs", client.ready() and client.ask("alloc 64").get("code") == 0)
    if bed.machine.containers == "namespaces" and others_may_enter(bed.machine.bin):
        other = tenant.client(uid=1001)
        checks.check("so does one of another user in its container", other.ready())
        other.leave()
    reached = reached_by_nobody(bed)
    checks.check("a user of the node reaches nothing", reached == "", reached)

    for path in (tenant.endpoint, bed.pool()["pipe"]):
        env = {**tenant.envs, "CUDA_MPS_PIPE_DIRECTORY": path}
        outside = Client(bed.machine, env, prefix=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"))
        outside.take()
        counted = str(outside.pid) in bed.privileged(f"get_client_list {bed.pool()['servers'][0]['pid']}").split()
        checks.check(f"nor becomes a client by {os.path.relpath(path, bed.path('mps/pools'))}", not counted)
        outside.kill()

    checks.check("and the tenant's program runs on", client.well())

    client.kill()  # a daemon with clients takes its time to end
    bed.end("mps")
    os.chmod(bed.path("mps/pools"), 0o755)
    os.chmod(bed.path("mps/mps.lock"), 0o644)
    bed.start("mps")
    checks.check("after an update from a version that let every user pass, slots are healthy", bed.all_healthy())
    checks.check("the pools are closed", mode(bed.path("mps/pools")) == "0o700", mode(bed.path("mps/pools")))
    checks.check("so is the lock, which a reader could hold", mode(bed.path("mps/mps.lock")) == "0o600", mode(bed.path("mps/mps.lock")))
    tenant.delete()
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
