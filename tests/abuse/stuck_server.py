"""A tenant breaks off with the MPS server once it has its socket, so that the server takes no new client. The pool proves itself, ends its
clients and then the server, and serves again by the same daemon without leaving service and coming back in between."""

import sys, time

from bed import main, wait_for

BREAK_OFF = """
import array, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.settimeout(5)
s.connect(sys.argv[1] + "/control")
s.recv(64)
s.sendmsg([b"OUTBCRED\\0"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), os.getuid(), os.getgid()))])
s.send(struct.pack("<I", 2))
print(s.recvmsg(64, 256)[0], flush=True)
"""


def run(bed, checks):
    attacker, neighbour = bed.tenant("attacker"), bed.tenant("neighbour")
    running = neighbour.client()
    checks.check("a neighbour's program runs", running.ready() and running.ask("alloc 64").get("code") == 0)
    before, logged = bed.pool(), len(bed.log("mps"))
    done = bed.machine.run(*attacker.enter, sys.executable, "-c", BREAK_OFF, attacker.inside)
    begin = time.monotonic()
    checks.check("the attacker had its socket to the server", "OUTBCUFD" in done.stdout, done.stderr[-200:])
    states = []

    def replaced():
        pool = bed.pool()
        if not states or states[-1] != pool.get("state"):
            states.append(pool.get("state"))
        return pool.get("state") == "serving" and pool["proof"]["ended"]["servers"] > 0

    well = wait_for(replaced, 60, 0.05)
    checks.check("the server is replaced within 45 s", bool(well) and time.monotonic() - begin < 45, f"{time.monotonic() - begin:.0f} s")
    checks.check("by the same daemon", bed.pool().get("daemonPid") == before["daemonPid"])
    serving = [state == "serving" for state, before in zip(states, [None, *states]) if (state == "serving") != (before == "serving") or before is None]
    checks.check("the pool leaves service once and comes back once", serving in ([True, False, True], [False, True]), states)
    log = bed.log("mps")[logged:]
    grant = attacker.endpoint.rsplit("/", 1)[1]
    checks.check("the attacker's grant is named", any("endpoint.stalled" in line and grant in line for line in log.splitlines()))
    running.kill()
    new = neighbour.client()
    checks.check("a new program starts", new.ready() and new.ask("alloc 64").get("code") == 0)
    new.leave()
    for tenant in (attacker, neighbour):
        tenant.delete()
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
