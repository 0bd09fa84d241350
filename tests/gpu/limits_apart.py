#!/usr/bin/env python3
"""Tenants with shares of different sizes start programs at the same time, one after the other without a pause. Does each program have
the limits of its own grant? Nothing but the server's limits counts: the programs have none of the tenant's variables. Prints a table
last and exits 1 when a row does not hold. Needs root, an idle GPU with MPS and a build; --simulated runs it on the stand-ins. It
changes no setting of the GPU."""

import concurrent.futures, sys, time

from gpu_bed import Machine
from rows import finish, parsed, parser
from shares import SLOTS, Shares

SIZES = (1, 2, 3, 5, 9)


def seen(tenant):
    """(free MiB, SMs) of a program that has just started; None: it does not start."""
    client = tenant.client()
    found = client.ask("info") if client.ready() else {}
    (client.leave if found else client.kill)()
    return (found["free"], found["sms"]) if "free" in found else None


def main():
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    args = parsed(options)
    machine = Machine(args)
    node, found = Shares(machine), {}
    try:
        tenants = [node.tenant(f"size-{size}", slots=size) for size in SIZES]
        for tenant in tenants:
            for name in [name for name in tenant.envs if name.startswith("CUDA_MPS_") and name != "CUDA_MPS_PIPE_DIRECTORY"]:
                del tenant.envs[name]
        alone = [seen(tenant) for tenant in tenants]
        end = time.monotonic() + args.seconds

        def starts(tenant):
            found = []
            while time.monotonic() < end:
                found.append(seen(tenant))
            return found

        with concurrent.futures.ThreadPoolExecutor(len(SIZES)) as workers:
            together = list(workers.map(starts, tenants))
    finally:
        node.stop()
    for size, first, later in zip(SIZES, alone, together):
        wrong = [one for one in later if not (one and first and one[1] == first[1] and abs(one[0] - first[0]) <= 64)]
        holds = bool(first and later) and not wrong and first[0] <= 1.01 * machine.total_mib * size / SLOTS
        found[f"{size} of {SLOTS}"] = {"measured": f"alone {first}; {len(later)} starts beside others, {len(wrong)} with another limit",
                                       "holds": holds, "wrong": wrong[:20]}
    return finish(machine, found, "limits_apart")


if __name__ == "__main__":
    sys.exit(main())
