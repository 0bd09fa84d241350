"""Rows of mps_that_holds.py about what a client does to others: <row>_before(machine, daemon, args) on a plain daemon and
<row>_after(machine, node, args) on our node. A row answers {"measured": a few words, "holds": True, False or None (not available)}
and whatever else is worth keeping."""

import importlib.util, json, os, statistics, time

from gpu_bed import PATIENCE, Client, PlainDaemon, Program, find, running_client, wait_for
from sm_counts import check

MALFORMED = ["zz", "0=zz", "0=", "=", " ", "0=0", "1=1G", "9=1G", "GPU-bad=1G", "0=1G,0=zz", "0", "0=1X", "=1G", "0:1G", "GPU-=1G", "0==1G",
             "0=G", "0=1G,9=1G", ",0=1G", "0=1G;0=1G"]
LONG_MS, IN_FLIGHT = 200, 5
OUT_OF_MEMORY = 2


def has_torch(machine):
    return not machine.simulated and importlib.util.find_spec("torch") is not None


def busy_client(machine, start, envs, prefix=()):
    """A process with work in flight that takes the neighbours along when it is killed: products of tensor cores where PyTorch is there,
    else long kernels of our own; None when it does not start."""
    if has_torch(machine):
        program = Program(machine, envs, "products", "queue=4", prefix=prefix)
        if program.ready(90):
            return program
        program.kill()
        return None
    client = start()
    if client.ready() and client.ask(f"launch {LONG_MS} {IN_FLIGHT}").get("code") == 0:
        return client
    client.kill()
    return None


def busy_before(machine, daemon, args):
    died, tried, peer = 0, 0, None
    for _ in range(min(args.repeats, 8) if has_torch(machine) else args.repeats):  # PyTorch starts in 4 to 6 s
        peer = peer or running_client(daemon.client)
        victim = busy_client(machine, daemon.client, daemon.env)
        if peer is None or victim is None:
            if victim is not None:
                victim.kill()
            continue
        time.sleep(0.25)
        victim.kill()
        tried += 1
        if peer.error(1.5):
            died += 1
            peer.kill()
            peer = None
    if peer:
        peer.leave()
    return {"measured": f"{died} of {tried} peers dead", "died": died, "tried": tried}


def busy_after(machine, node, args):
    """Each busy client is killed; the keeper has its descriptors."""
    if machine.simulated and machine.containers != "namespaces":
        return {"measured": "needs root", "holds": None}
    died, tried = 0, 0
    neighbour = node.tenant("busy-neighbour")
    peer = running_client(neighbour.client)
    for i in range(args.repeats):
        tenant = node.tenant(f"busy-{i}")
        victim = busy_client(machine, tenant.client, tenant.envs, tenant.enter)
        if peer is None or victim is None:
            raise RuntimeError(f"try {i}: {'the peer' if peer is None else 'the busy client'} does not start")
        wait_for(lambda: is_held(node, tenant))
        time.sleep(0.25)
        victim.kill()
        tried += 1
        tenant.delete()
        if peer.error(0.8):
            died += 1
            peer.kill()
            peer = running_client(neighbour.client)
    peer.leave()
    neighbour.delete()
    return {"measured": f"{died} of {tried} peers dead", "holds": died == 0 and tried == args.repeats}


def is_held(node, tenant):
    clients = [one for endpoint in node.pool().get("endpoints", []) if endpoint["grant"] == os.path.basename(tenant.endpoint) for one in endpoint.get("protection", [])]
    return clients and all(one["protected"] == "yes" for one in clients)


def over_limit(client, limit, patience):
    """What became of a client that takes 2 GiB more than its limit: ("refused" | "ended" | "escaped", milliseconds since it crossed)."""
    if not client.ready():
        return "refused", None
    grown = client.ask(f"grow {limit + 2048} 256 {limit}")
    crossed = grown.get("crossedAt")
    if crossed is None:
        return ("refused" if grown.get("code") else "escaped"), None
    if grown.get("code") not in (0, OUT_OF_MEMORY):
        return "ended", (grown["at"] - crossed) * 1000
    client.ask("run", 2)
    ended = wait_for(lambda: not client.errors.empty() or client.process.poll() is not None, patience)
    error = ended and (client.error() or {"at": time.monotonic()})
    return ("ended", (error["at"] - crossed) * 1000) if error else ("escaped", None)


def variables_before(machine, daemon, args):
    outcomes = {}
    for value in MALFORMED[:args.values]:
        client = daemon.client({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": value})
        outcomes[value] = over_limit(client, daemon.limit_mib, 0.5)[0]
        client.leave()
    escaped = sum(o == "escaped" for o in outcomes.values())
    return {"measured": f"{escaped} of {len(outcomes)} escape", "outcomes": outcomes}


def variables_after(machine, node, args):
    limit = node.status()["devices"][0]["slotMemoryMiB"]
    outcomes = {}
    for i, value in enumerate(MALFORMED[:args.values]):
        tenant = node.tenant(f"value-{i}")
        client = tenant.client({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": value})
        outcomes[value] = over_limit(client, limit, PATIENCE)
        client.leave()
        tenant.delete()
    escaped = sum(o == "escaped" for o, _ in outcomes.values())
    times = [ms for o, ms in outcomes.values() if ms is not None]
    words = f"{escaped} of {len(outcomes)} escape"
    if times:
        words += f"; ended after {statistics.median(times):.0f} ms median, {max(times):.0f} ms worst"
    if escaped and "guard" not in json.dumps(node.status()):
        return {"measured": words + "; no guard here", "holds": None, "outcomes": outcomes}
    acts = list(find(node.status(), lambda m: "tookMs" in m))[-40:]
    holds = escaped == 0 and (machine.simulated or not times or max(times) <= 250)
    return {"measured": words, "holds": holds, "outcomes": outcomes, "acts": acts}


def total_of(clients):
    answers = [c.ask("info", 5) for c in clients]
    return sum(a.get("held", 0) for a in answers if a.get("code") == 0)


def four(start, limit):
    clients = [start() for _ in range(4)]
    for client in clients:
        client.ready()
    for client in clients:
        client.ask(f"grow {limit * 8 // 10} 256 {limit}")
    return clients


def container_before(machine, daemon, args):
    clients = four(daemon.client, daemon.limit_mib)
    time.sleep(1.0)
    total = total_of(clients)
    for client in clients:
        client.leave()
    return {"measured": f"{total} MiB under a share of {daemon.limit_mib}", "total": total}


def container_after(machine, node, args):
    limit = node.status()["devices"][0]["slotMemoryMiB"]
    tenant = node.tenant("container")
    clients = four(tenant.client, limit)
    begin = time.monotonic()
    within = wait_for(lambda: total_of(clients) <= limit)  # stopped at once; it holds its memory until it is killed
    seconds, total = time.monotonic() - begin, total_of(clients)
    for client in clients:
        client.leave()
    tenant.delete()
    if not within and "guard" not in json.dumps(node.status()):
        return {"measured": f"{total} MiB under a share of {limit}; no guard here", "holds": None}
    return {"measured": f"{total} MiB under a share of {limit}, {seconds * 1000:.0f} ms after the last allocation", "holds": bool(within)}


def users_before(machine, daemon, args):
    if os.geteuid() != 0:
        return {"measured": "needs root"}
    first = running_client(daemon.client)
    second = daemon.client(uid=1001)
    waits = not second.ready(4)
    second.kill()
    first.leave()
    return {"measured": "the second waits (4 s and on)" if waits else "both run"}


def users_after(machine, node, args):
    if os.geteuid() != 0:
        return {"measured": "needs root", "holds": None}
    tenants = [node.tenant("user-0"), node.tenant("user-1001")]
    clients = [tenants[0].client(uid=0), tenants[1].client(uid=1001)]
    run = [c.ready() and c.ask("run").get("code") == 0 for c in clients]
    time.sleep(0.3)
    well = [c.well() for c in clients]
    for client, tenant in zip(clients, tenants):
        client.leave()
        tenant.delete()
    return {"measured": f"uid 0 {'runs' if run[0] and well[0] else 'does not'}, uid 1001 {'runs' if run[1] and well[1] else 'does not'}",
            "holds": all(run) and all(well)}


def outside_before(machine, daemon, args):
    client = Client(machine, {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    client.ready()
    sms = client.ask("info").get("sms")
    client.leave()
    return {"measured": f"it gets {sms} SMs and no limit, and nobody says so"}


def outside_after(machine, node, args):
    tenant = node.tenant("outside")
    client = tenant.client({"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    client.ready()
    client.ask("alloc 1024")
    begin = time.monotonic()
    by_guard = lambda: [m for m in find(node.status().get("guard", {}), lambda m: m.get("pid") == client.pid)]
    by_list = lambda: [m for m in find(node.status().get("devices", []), lambda m: m.get("pid") == client.pid and m.get("mpsClient") is False)]
    named = wait_for(by_guard) or []
    listed = named or wait_for(by_list) or []
    seconds = time.monotonic() - begin
    client.leave()
    tenant.delete()
    if named:
        return {"measured": f"named by the guard after {seconds * 1000:.0f} ms", "holds": True, "entry": named[0]}
    if listed:
        grant = listed[0].get("grant")
        return {"measured": "in the list of processes as no client of MPS, " + (f"with its grant {grant}" if grant else "but not whose"),
                "holds": True if grant else False if "guard" in node.status() else None, "entry": listed[0]}
    return {"measured": "not to be seen in the node's status", "holds": False if "guard" in node.status() else None}


def probe_products(machine, daemon, percentage, args):
    run = check(machine, daemon, percentage, "bf16,fp16,fp8", args.gemm_shapes, 120)
    gemm = run["gemm"]
    return {"sms": run["sms"], "right": gemm.get("right", 0), "wrong": gemm.get("wrong", 0), "checked": gemm.get("checked", False),
            "why": gemm.get("reason", run["error"]), "seconds": gemm.get("seconds")}


def products_at(machine, percentages, args):
    """One check an SM count: {percentage: result}. Needs a daemon without limits of its own."""
    daemon, results, by_sms = PlainDaemon(machine, limited=False), {}, {}
    try:
        for percentage in percentages:
            sms = max(8, 2 * int(float(percentage) * machine.sms / 200))
            by_sms[sms] = by_sms.get(sms) or probe_products(machine, daemon, percentage, args)
            results[percentage] = by_sms[sms]
    finally:
        daemon.stop()
    return results


def products(machine, percentages, args):
    results = products_at(machine, sorted(set(percentages.values()), key=float), args)
    if not all(r["checked"] for r in results.values()):
        return {"measured": next(r["why"] for r in results.values() if not r["checked"])[:160], "holds": None, "results": results}
    bad = [slots for slots, percentage in percentages.items() if results[percentage]["wrong"]]
    wrong = sum(results[p]["wrong"] for p in set(percentages.values()))
    counts = sorted({r["sms"] for r in results.values()})
    total = sum(results[p]["right"] + results[p]["wrong"] for p in set(percentages.values()))
    return {"measured": f"{wrong} of {total} products wrong, at {len(bad)} of {len(percentages)} slot counts ({len(counts)} SM counts)",
            "holds": wrong == 0, "slots": bad, "counts": counts, "results": results}


def products_before(machine, daemon, args):
    daemon.stop()  # one daemon at a time on the GPU; ours has no limits
    return products(machine, {slots: str(100 // slots) for slots in range(2, 49)}, args)


def products_after(machine, node, args):
    """With the percentages that our plan gives; under a daemon of its own, beside the node's idle one."""
    percentages = {}
    for slots in range(2, 49):
        with open(f"{machine.scratch}/plan.yaml", "w") as file:
            file.write(f"version: v1\nsharing: {{mps: {{resources: [{{name: nvidia.com/gpu, replicas: {slots}}}]}}}}\n")
        plan = json.loads(machine.run(f"{machine.bin}/tranche", "plan", "--config-file", f"{machine.scratch}/plan.yaml", "--json",
                                      *(["--driver-root-ctr-path", node.path("driver")] if machine.simulated else [])).stdout)
        share = next(find(plan["resources"], lambda m: "threadsPercent" in m))
        percentages[slots] = f"{share['threadsPercent']:g}"
    return products(machine, percentages, args)
