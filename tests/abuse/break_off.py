"""A tenant gets its socket to the MPS server and breaks off, in every way that it has, and in loops. A server that is left like that
takes no other client (docs/internals/evidence/mps-handshake.md), so the relay says the rest in its place: a neighbour's programs start
meanwhile, the running one runs on, the server is not replaced, and the tenant is named."""

import os, sys

from bed import main
from broken_off import WAYS, attack, is_named

LOOPS = ("confirm", "shut", "gone", "surplus")


def starts(tenant):
    client = tenant.client()
    ready = client.ready()
    (client.leave if ready else client.kill)()
    return ready


def run(bed, checks):
    neighbour = bed.tenant("neighbour")
    running = neighbour.client()
    checks.check("a neighbour's program runs", running.ready() and running.ask("run").get("code") == 0)
    first = bed.pool()
    for way in WAYS:
        attacker = bed.tenant(f"attacker-{way}")
        process = attack(bed.machine, attacker, way, 1)
        socket_line = process.stdout.readline()
        checks.check(f"{way}: the next program starts", starts(neighbour) and "OUTBCUFD" in socket_line, socket_line.strip())
        checks.check(f"{way}: the tenant is named", is_named(bed, attacker, way))
        process.kill()
        process.wait()
        attacker.delete()
    attackers = [bed.tenant(f"loop-{way}") for way in LOOPS]
    loops = [attack(bed.machine, tenant, way, 0) for tenant, way in zip(attackers, LOOPS)]
    checks.check("beside four tenants that do so in a loop, eight programs start", all([starts(neighbour) for _ in range(8)]))
    checks.check("and the tenants are named", all(is_named(bed, *each) for each in zip(attackers, LOOPS)))
    for process in loops:
        os.killpg(process.pid, 9)
        process.wait()
    last = bed.pool()
    checks.check("the same server serves", [s["pid"] for s in last["servers"]] == [s["pid"] for s in first["servers"]] and
                 last["proof"]["ended"]["servers"] == 0)
    checks.check("the neighbour's first program has run all the time", running.error() is None and running.well())
    running.leave()
    for tenant in (neighbour, *attackers):
        tenant.delete()
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__, slots=1 + len(LOOPS)))
