#!/usr/bin/env python3
"""What shares of several sizes yield, on one GPU: pods of 1, 2, 5 and 10 of 20 slots at once, a tenant's own percentages, what a tenant
gets who asks in its environment for more than its slots, and four probes in a tenth each, against four that share the GPU in time. Prints a
table last and exits 1 when a row does not hold.
Needs root, an idle GPU with MPS, and a build; --simulated runs it on the stand-ins (whose speed is made up: the rows about speed are
then left out). It changes no setting of the GPU."""

import concurrent.futures, sys, types

from gpu_bed import Machine, Node, last_json
from rows import clean, parsed, parser, promises, run_parts, title, verdict

SLOTS = 20
SIZES = (1, 2, 5, 10)


TENTHS = ("--blocks", "12", "--allocate", "10G", "--allocate", "10G")
HEAD = "version: v1\nsharing:\n  mps:\n    computeMode: leave\n    failRequestsGreaterThanOne: false\n    resources:\n"


class Shares(Node):
    SLOTS = SLOTS
    CONFIG = HEAD + f"    - {{name: nvidia.com/gpu, replicas: {SLOTS}}}\n"


def probe(tenant, *words, env=None, seconds=1.0):
    """`tranche probe` inside the pod."""
    machine = tenant.node.machine
    done = machine.run(*tenant.enter, f"{machine.bin}/tranche", "probe", "--json", "--seconds", str(seconds), *words, env={**tenant.envs, **(env or {})})
    return last_json(done.stdout) or {"failed": (done.stderr or done.stdout)[-300:]}


def at_once(tenants, *words, seconds, envs=None):
    one = lambda i: probe(tenants[i], *words, env=(envs or {}).get(i), seconds=seconds)
    with concurrent.futures.ThreadPoolExecutor(len(tenants)) as workers:
        return list(workers.map(one, range(len(tenants))))


def speed_of(report):
    return (report.get("throughput") or {}).get("blocksPerSecond", 0)


def sms_of(report):
    sms = report.get("sms") or {}
    return sms.get("attribute"), sms.get("seen")


def memory_of(report):
    return ((report.get("memory") or {}).get("largestAllocation") or 0) >> 20


def sizes(node, args, rows):
    """1, 2, 5 and 10 of 20 slots: alone one after the other, then all at once."""
    machine = node.machine
    tenants = [node.tenant(f"size-{n}", slots=n) for n in SIZES]
    alone = [probe(t, "--find-limit", seconds=args.seconds) for t in tenants]
    together = at_once(tenants, seconds=2 * args.seconds)
    for n, tenant, first, busy in zip(SIZES, tenants, alone, together):
        promised = machine.total_mib * n // SLOTS
        got = memory_of(first)
        attribute, seen = sms_of(first)
        env = tenant.envs.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "")
        words = f"{got} MiB ({100 * got / promised:.1f} %), {attribute} SMs by attribute, {seen} seen"
        for which, report in (("alone", first), ("with the others", busy)):
            if "failed" in report:
                words += f"; the probe {which} failed: {report['failed'].strip()}"
        holds = abs(got / promised - 1) <= 0.02 and attribute == seen
        if not machine.simulated:
            ratio = speed_of(busy) / max(1, speed_of(first))
            words += f", {speed_of(first):,.0f} blocks/s alone, {100 * ratio:.0f} % of that with the others"
        rows.append((f"{n} of {SLOTS} slots", f"{promised} MiB within 2 %, SMs as set ({env} %)", words, holds,
                     (speed_of(first), speed_of(busy)), attribute))
    for tenant in tenants:
        tenant.delete()


def proportional(rows, which):
    """Speed by SM, relative to that of the largest grant: alone (0), and all at once (1)."""
    measured = [(row[4][which], row[5]) for row in rows if len(row) > 4 and row[4][which] and row[5]]
    if not measured:
        return None
    base = measured[-1][0] / measured[-1][1]
    each = [speed / sms / base for speed, sms in measured]
    return ", ".join(f"{100 * e:.0f} %" for e in each), all(0.9 <= e <= 1.1 for e in each)


def own_percentages(node, args, rows):
    """Two pods of 6 and 14 slots that say 30 % and 70 % of the GPU themselves, and one of 10 that lowers itself to 30 %."""
    machine, total = node.machine, node.machine.total_mib
    tenants = [node.tenant("thirty", slots=6), node.tenant("seventy", slots=14)]
    envs = {i: {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(p), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{machine.gpu['uuid']}={total * p // 100}M"}
            for i, p in enumerate((30, 70))}
    limits = [probe(t, "--find-limit", env=envs[i], seconds=args.seconds) for i, t in enumerate(tenants)]
    busy = at_once(tenants, seconds=2 * args.seconds, envs=envs)
    words = []
    holds = True
    for p, limit, report in zip((30, 70), limits, busy):
        got, promised = memory_of(limit), total * p // 100
        words.append(f"{p} %: {got} MiB ({100 * got / promised:.1f} %), {sms_of(limit)[0]} SMs" +
                     ("" if machine.simulated else f", {100 * speed_of(report) / max(1, speed_of(limit)):.0f} % of its speed alone"))
        holds = holds and abs(got / promised - 1) <= 0.02
    rows.append(("30 % and 70 % by the tenants' own values", "each its own", "; ".join(words), holds))
    more = probe(tenants[0], "--find-limit", env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT":
                                                  f"{machine.gpu['uuid']}={total}M"}, seconds=0)
    promised = total * 6 // SLOTS
    rows.append((f"6 of {SLOTS} slots, the tenant asks for all", f"no more than {promised} MiB",
                 more.get("failed") or f"{memory_of(more)} MiB, {sms_of(more)[0]} SMs", 0 < memory_of(more) <= promised * 1.01))
    for tenant in tenants:
        tenant.delete()
    lower = node.tenant("lower", slots=10)
    less = probe(lower, "--find-limit", env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT":
                                             f"{machine.gpu['uuid']}={total // 4}M"}, seconds=0)
    rows.append((f"10 of {SLOTS} slots, the tenant lowers itself to a quarter", f"{total // 4} MiB", f"{memory_of(less)} MiB, {sms_of(less)[0]} SMs",
                 0 < memory_of(less) <= total // 4))
    lower.delete()


def tenths(node, args, rows):
    device = node.status()["devices"][0]
    share = 2 * device["memoryMiB"] // SLOTS
    tenants = [node.tenant(f"tenth-{i}", slots=2) for i in range(4)]
    reports = at_once(tenants, *TENTHS, seconds=6 * args.seconds)
    for tenant, report in zip(tenants, reports):
        limit, answers = tenant.envs.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", ""), report.get("answers") or {}
        granted, (attribute, seen) = [a.get("granted") for a in report.get("allocations", [])], sms_of(report)
        rows.append((f"{tenant.name}: 10 GiB, then 10 GiB more under {share} MiB; right answers", "granted, refused; 0 wrong words",
                     f"{granted}, variable {limit[-9:]}; {attribute} SMs by attribute, {seen} seen; {answers.get('wrong')} of "
                     f"{answers.get('checked')} wrong",
                     granted == [True, False] and limit.endswith(f"={share}M") and 0 < (seen or 0) <= (attribute or 0) and
                     answers.get("wrong") == 0))
    if not node.machine.simulated:
        shared, sliced, alone = (sum(map(speed_of, each)) for each in (reports, args.sliced, args.alone))
        rows.append(("four probes of 12 blocks, blocks/s together", "≥ 2 × time-sliced",
                     f"{shared:,.0f} shared, {sliced:,.0f} time-sliced ({shared / max(sliced, 1):.1f} ×); one alone {alone:,.0f}",
                     shared >= 2 * sliced > 0))
    rows.append(("compute mode", "untouched", compute_mode(node.machine), compute_mode(node.machine) == args.mode))


def compute_mode(machine):
    return machine.run("nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader").stdout.strip()


def main():
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=1.0, help="how long speed is measured")
    args = parsed(made)
    machine = Machine(args)
    args.mode = compute_mode(machine)
    if not machine.simulated:
        outside = types.SimpleNamespace(node=types.SimpleNamespace(machine=machine), enter=(), envs={})
        args.sliced, args.alone = (at_once(count * [outside], *TENTHS[:2], seconds=6 * args.seconds) for count in (4, 1))
    if not machine.simulated:  # of one GPU, whatever is there
        Shares.CONFIG += f"devices:\n  include: ['{machine.gpu['uuid']}']\n"
    rows = []
    killed = run_parts(Shares(machine), args, rows, (sizes, own_percentages, tenths))
    in_step = {} if machine.simulated else {"alone": proportional(rows, 0), "all at once": proportional(rows, 1)}
    print(title(machine))
    promises(rows)
    for when, found in in_step.items():
        words, holds = found or ("nothing was measured", False)
        print(f"| speed by SM, {when}, against the largest grant | within 10 % | {words} | {verdict(holds)} |")
    left = clean(machine, killed)
    return 0 if all(row[3] for row in rows) and all(found and found[1] for found in in_step.values()) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
