"""An MPS server takes no new client: root of the node has broken off with it, past the relay (a tenant cannot: break_off.py). The pool
proves itself, ends its clients and then the server, and serves again by the same daemon without leaving service and coming back in
between."""

import sys

from bed import main, wait_for

BREAK_OFF = """
import array, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.settimeout(60)
s.connect(sys.argv[1] + "/control")
s.recv(64)
s.sendmsg([b"OUTBCRED\\0"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), os.getuid(), os.getgid()))])
s.send(struct.pack("<I", 2))
print(s.recvmsg(64, 256)[0], flush=True)
"""


def run(bed, checks):
    other, neighbour = bed.tenant("other"), bed.tenant("neighbour")
    running = neighbour.client()
    checks.check("a neighbour's program runs", running.ready() and running.ask("alloc 64").get("code") == 0)
    before, logged = bed.pool(), len(bed.log("mps"))
    done = bed.machine.run(sys.executable, "-c", BREAK_OFF, before["pipe"])
    checks.check("the server's socket was handed over", "OUTBCUFD" in done.stdout, done.stderr[-200:])
    waiting = [other.client(), neighbour.client()]  # two that get no server in time: the server is doubted
    states = []

    def replaced():
        pool = bed.pool()
        if not states or states[-1] != pool.get("state"):
            states.append(pool.get("state"))
        return pool.get("state") == "serving" and pool["proof"]["ended"]["servers"] > 0

    checks.check("the server is replaced", wait_for(replaced, 300))
    checks.check("by the same daemon", bed.pool().get("daemonPid") == before["daemonPid"])
    serving = [state == "serving" for state, before in zip(states, [None, *states]) if (state == "serving") != (before == "serving") or before is None]
    checks.check("the pool leaves service once and comes back once", serving in ([True, False, True], [False, True]), states)
    log = bed.log("mps")[logged:]
    grant = other.endpoint.rsplit("/", 1)[1]
    checks.check("those that waited are not blamed", "endpoint.attempt" not in log and any(grant in line for line in log.splitlines()))
    for client in (running, *waiting):
        client.kill()
    new = neighbour.client()
    checks.check("a new program starts", new.ready() and new.ask("alloc 64").get("code") == 0)
    new.leave()
    for tenant in (other, neighbour):
        tenant.delete()
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
