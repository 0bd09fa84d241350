#!/usr/bin/env python3
"""Two GPUs in one container: of a resource per GPU (`names: gpu%d`, five slots of each), and of one resource whose request does not fit
on one GPU (`split: span`). Each process is held to the container's share on the GPU that it uses, while a neighbour holds slots of both.
Prints a table last and exits 1 when a row does not hold. Needs root, two idle GPUs with MPS, and a build; --simulated runs it on the
stand-ins. It changes no setting of a GPU."""

import argparse, json, sys, threading, time

from gpu_bed import Machine, Node, last_json, stay, wait_for

EACH = 20  # slots of a GPU
HEAD = "version: v1\nsharing:\n  mps:\n    computeMode: leave\n    failRequestsGreaterThanOne: false\n    resources:\n"


class Individual(Node):
    SLOTS = 2 * EACH
    CONFIG = HEAD + f"    - {{name: nvidia.com/gpu, replicas: {EACH}, names: nvidia.com/gpu%d}}\n"


class Span(Node):
    SLOTS = 2 * EACH
    CONFIG = HEAD + f"    - {{name: nvidia.com/gpu, replicas: {EACH}, split: span}}\n"


def probe(tenant, uuid, seconds, find_limit=True):
    machine = tenant.node.machine
    words = ["--device", uuid, "--seconds", str(seconds)] + (["--find-limit"] if find_limit else [])
    # It names the GPUs of one of the container's two answers and stands for device nodes, which no container here has.
    env = {name: value for name, value in tenant.envs.items() if name != "NVIDIA_VISIBLE_DEVICES"}
    done = machine.run(*tenant.enter, f"{machine.bin}/tranche", "probe", "--json", *words, env=env)
    report = last_json(done.stdout)
    return report if report.get("memory") else {"failed": (done.stderr or done.stdout).strip()[-300:]}


def gpus_of(node):
    """UUIDs by index, as the node reports them."""
    found = {int(device["index"]): device["uuid"] for device in node.status().get("devices", [])}
    return [found[index] for index in sorted(found)]


def grant_devices(node, pod):
    """What the pod's grants hold, once kubelet has named it: {uuid: slots}."""
    held = {}
    for grant in node.status().get("grants", []):
        if grant["pod"] == pod:
            held.update({device["uuid"]: device["slots"] for device in grant["devices"]})
    return held


def endpoints_know_both(node):
    """Every endpoint of the pool has both GPUs."""
    endpoints = node.pool().get("endpoints", [])
    return endpoints and all(len(endpoint["limits"] or []) == 2 for endpoint in endpoints)


def held_to(report, promised, machine):
    """Words, and whether it is within 2 % of the promise and right about its SMs."""
    if "failed" in report:
        return f"the probe failed: {report['failed']}", False
    got = (report["memory"].get("largestAllocation") or 0) >> 20
    sms = report.get("sms") or {}
    words = f"{got} of {promised} MiB, {sms.get('attribute')} SMs by attribute, {sms.get('seen')} seen"
    return words, abs(got / promised - 1) <= 0.02 and sms.get("attribute") == sms.get("seen")


def both_at_once(tenant, uuids, seconds):
    reports = [None, None]

    def one(i):
        reports[i] = probe(tenant, uuids[i], seconds, find_limit=False)

    threads = [threading.Thread(target=one, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return all((r.get("throughput") or {}).get("blocksPerSecond", 0) > 0 for r in reports), reports


def measure(node, name, tenant, slots, args, rows):
    machine, uuids = node.machine, gpus_of(node)
    for index, uuid in enumerate(uuids):
        promised = machine.total_mib * slots[index] // EACH
        words, holds = held_to(probe(tenant, uuid, args.seconds), promised, machine)
        rows.append((f"{name}: on GPU {index}, {slots[index]} of {EACH} slots", f"{promised} MiB within 2 %", words, holds))
    ran, reports = both_at_once(tenant, uuids, args.seconds)
    rows.append((f"{name}: computing on both at once", "both run", "both ran" if ran else json.dumps(reports)[:300], ran))


def individual(node, args, rows):
    machine = node.machine
    node.tenant("neighbour", limits={"nvidia.com/gpu0": 3, "nvidia.com/gpu1": 3})
    tenant = node.tenant("both", limits={"nvidia.com/gpu0": 5, "nvidia.com/gpu1": 5})
    wait_for(lambda: endpoints_know_both(node))
    measure(node, "gpu0: 5 with gpu1: 5", tenant, (5, 5), args, rows)
    alone = node.tenant("second", limits={"nvidia.com/gpu1": 7})
    promised = machine.total_mib * 7 // EACH
    words, holds = held_to(probe(alone, gpus_of(node)[1], args.seconds), promised, machine)
    rows.append((f"gpu1: 7 alone, 7 of {EACH} slots of GPU 1", f"{promised} MiB within 2 %", words, holds))


def span(node, args, rows):
    tenant = node.tenant("wide", slots=30)
    held = wait_for(lambda: grant_devices(node, "wide")) or {}
    slots = [held.get(uuid, 0) for uuid in gpus_of(node)]
    if len(slots) != 2 or 0 in slots:
        rows.append(("span: 30 of 40 slots", "slots of both GPUs", f"{slots}", False))
    else:
        measure(node, "span: 30 of 40 slots", tenant, slots, args, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--standins", default="build/standins")
    parser.add_argument("--simulated", metavar="BUILD", help="run on the stand-ins of this build")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each computes")
    args = parser.parse_args()
    args.cublas, args.gpus = "", 2
    if args.simulated:
        args.bin, args.standins = f"{args.simulated}/bin", f"{args.simulated}/standins"
    machine, rows, killed = Machine(args), [], []
    for kind, part in ((Individual, individual), (Span, span)):
        node = kind(machine)
        try:
            part(node, args, rows)
        except Exception as error:  # the rows that are there are worth having
            rows.append((part.__name__, "", f"{type(error).__name__}: {error}"[:300], False))
        if not all(row[3] for row in rows):
            node.show_logs()
        killed += node.stop()
    print(f"GPU: {machine.gpu['name']}   {time.strftime('%Y-%m-%d', time.gmtime())}" + ("   (simulated)" if machine.simulated else ""))
    print("| what | promised | measured | |\n| --- | --- | --- | --- |")
    for what, promised, measured, holds in rows:
        print(f"| {what} | {promised} | {measured} | {'holds' if holds else 'DOES NOT HOLD'} |")
    left = stay(machine)
    print(f"processes left: {len(left)}; had to be killed: {', '.join(killed) or 'none'}")
    machine.clean()
    return 0 if rows and all(row[3] for row in rows) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
