"""A tenant gets its socket to the MPS server and breaks off, in every way that it has, and in loops. A server that is left like that
takes no other client (docs/internals/evidence/mps-handshake.md), so the relay says the rest in its place: a neighbour's programs start
meanwhile, the running one runs on, the server is not replaced, and the tenant is named."""

import os, sys, time

from bed import main, wait_for
from broken_off import WAYS, attack

LOOPS = ("confirm", "shut", "gone", "surplus")
MOST_S = 8  # for a start of the neighbour's: it waits at most once for a silent client (2 s), on a busy machine


def start(tenant):
    begin = time.monotonic()
    client = tenant.client()
    ready = client.ready(MOST_S)
    (client.leave if ready else client.kill)()
    return round(time.monotonic() - begin, 1) if ready else None


def run(bed, checks):
    neighbour = bed.tenant("neighbour")
    running = neighbour.client()
    checks.check("a neighbour's program runs", running.ready() and running.ask("run").get("code") == 0)
    first, grants = bed.pool(), {}
    for way in WAYS:
        attacker = bed.tenant(f"attacker-{way}")
        grants[way] = attacker.endpoint.rsplit("/", 1)[1]
        process = attack(bed.machine, attacker, way, 1)
        socket_line = process.stdout.readline()
        took = start(neighbour)
        checks.check(f"{way}: the next program starts", took is not None and "OUTBCUFD" in socket_line, f"{took} s")
        process.kill()
        process.wait()
        attacker.delete()
    attackers = [bed.tenant(f"loop-{way}") for way in LOOPS]
    loops = [attack(bed.machine, tenant, way, 0) for tenant, way in zip(attackers, LOOPS)]
    times = [start(neighbour) for _ in range(8)]
    checks.check("beside four tenants that do so in a loop, eight programs start", None not in times, times)
    stalled = wait_for(lambda: all(any(e["grant"] in t.endpoint and e["stalled"] for e in bed.pool()["endpoints"]) for t in attackers[:2]), 10)
    checks.check("the endpoints of both count it", stalled)
    for process in loops:
        os.killpg(process.pid, 9)
        process.wait()
    log = bed.log("mps")
    checks.check("each way is named in the log with its grant",
                 all(any(grant in line and "endpoint." in line for line in log.splitlines()) for grant in grants.values()),
                 [way for way, grant in grants.items() if grant not in log])
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
