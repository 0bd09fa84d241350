"""A program of a tenant that gets its socket to the MPS server and breaks off (docs/internals/evidence/mps-handshake.md)."""

import subprocess, sys

from gpu_bed import wait_for

# $1 endpoint, $2 way, $3 how often: 0 = until it is killed. A process for each time, as a tenant's programs would be.
BREAK_OFF = """
import array, os, socket, struct, sys, time
path, way, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
def heir():
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        once(lambda s, server: socket.send_fds(theirs, [b"x"], [s.fileno(), server.fileno()]))
        os._exit(0)
    os.waitpid(child, 0)
    _, fds, _, _ = socket.recv_fds(ours, 1, 2)
    s, server = (socket.socket(fileno=fd) for fd in fds)
    for message in (b"OUTBCRED\\0", bytes(4), b"\\xff\\0\\0\\0"): server.send(message)
    s.send(bytes(4))
    time.sleep(0.5)
def gone():  # hangs up while the daemon looks for a server, at once or a moment later
    print("does not wait for OUTBCUFD", flush=True)
    for i in range(40):
        s = introduced()
        time.sleep(i % 8 * 25e-6)
        s.close()
    time.sleep(0.3)
def surplus():  # stays alive, and sends a message that no CUDA process sends while the daemon looks for a server
    print("does not wait for OUTBCUFD", flush=True)
    for i in range(40):
        s = introduced()
        time.sleep(i % 8 * 25e-6)
        try: s.send(b"x")
        except OSError: pass
        try: s.recv(64)
        except OSError: pass
        s.close()
def introduced():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    s.connect(path + "/control")  # waits while the relay accepts no more; with a timeout it would fail
    s.settimeout(60)
    s.recv(64)
    s.sendmsg([b"OUTBCRED\\0"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), os.getuid(), os.getgid()))])
    s.send(struct.pack("<I", 2))
    return s
def once(give=None):
    s = introduced()
    text, ancillary, _, _ = s.recvmsg(64, 256)
    print(text, flush=True)
    if way == "unread": os._exit(0)
    server = socket.socket(fileno=array.array("i", next(data for _, kind, data in ancillary if kind == socket.SCM_RIGHTS)[:4])[0])
    if give: return give(s, server)
    if way == "shut": server.shutdown(socket.SHUT_RDWR)
    if way == "noise": server.send(os.urandom(64))
    if way == "half": server.send(b"OUTBCRED\\0")
    if way == "empty": server.send(b"")
    if way == "garbled": s.send(b"x")
    if way == "descriptor": socket.send_fds(server, [b"x"], [0])
    if way not in ("hold", "empty", "garbled"): server.close()
    if way in ("confirm", "hold"): s.send(bytes(4))
    if way == "hold": time.sleep(60)
    if way in ("empty", "garbled"): time.sleep(0.3)
count = 0
while times == 0 or count < times:
    count += 1
    child = os.fork()
    if child == 0:
        try: {"heir": heir, "gone": gone, "surplus": surplus}.get(way, once)()
        except OSError as error: print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
WAYS = ("unread", "close", "confirm", "shut", "noise", "half", "descriptor", "empty", "garbled", "hold", "heir", "gone", "surplus")


def attack(machine, tenant, way, times):
    return subprocess.Popen([*tenant.enter, sys.executable, "-c", BREAK_OFF, tenant.inside, way, str(times)], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=machine.env, start_new_session=True)


def is_named(node, tenant, way):
    """Whether the tenant's endpoint counts it, once it does. Who is gone before it has been given anything need not be counted."""
    counts = lambda: any(e["grant"] in tenant.endpoint and (e["completed"] or e["attempts"]) for e in node.pool().get("endpoints", []))
    return way == "gone" or bool(wait_for(counts))
