#!/usr/bin/env python3
"""A real GPU shared by the real programs: `tranche mps` and `tranche node` (compute mode left alone) with the kubelet
double, containers as mount namespaces, `tranche probe` as every container's program. Prints a table and exits 1 when a
row does not hold. Needs root, a GPU with MPS (Volta or newer), and a build: BIN (build/bin) and STANDINS.

Run on an idle GPU: it changes no setting of it, and leaves no process behind (which is its last row)."""

import json, subprocess, sys, time

from gpu_bed import Machine, Node, last_json, leftovers, wait_for
from rows import clean, parsed, parser, promises, title

SLOTS = 10
RESOURCE = "nvidia.com/gpu.shared"


def pod(name, slots, command):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "command": command, "resources": {"limits": {RESOURCE: slots}}}]}}


class Shared(Node):
    CONFIG = f"""version: v1
sharing:
  mps:
    renameByDefault: true
    failRequestsGreaterThanOne: false
    computeMode: leave
    resources:
    - name: nvidia.com/gpu
      replicas: {SLOTS}
"""

    def run_to_end(self, pods, seconds):
        """What has become of the pods, by name."""
        with open(self.path("pods.yaml"), "w") as file:
            file.write("\n---\n".join(map(json.dumps, pods)))
        self.kubelet_command("apply", self.path("pods.yaml"))
        wait_for(lambda: len(self.kubelet_pods()) == len(pods) and all(p["phase"] in ("Succeeded", "Failed") for p in self.kubelet_pods().values()), seconds)
        return self.kubelet_pods()


def probe_result(pod_state):
    """The report that `tranche probe --json` left as its last line."""
    container = pod_state["containers"][0]
    for key in ("last_output_json", "last_json"):
        if isinstance(container.get(key), dict):
            return container[key]
    return last_json("\n".join(container.get("output", [])))


def time_sliced(machine, processes, blocks, seconds):
    probes = [subprocess.Popen([f"{machine.bin}/tranche", "probe", "--json", "--seconds", str(seconds), "--blocks", str(blocks)],
                               stdout=subprocess.PIPE, text=True, env=machine.env) for _ in range(processes)]
    return [last_json(p.communicate()[0]) for p in probes]


def rate(report):
    return (report.get("throughput") or {}).get("blocksPerSecond", 0.0)


def settings(machine):
    return machine.run("nvidia-smi", "--query-gpu=name,driver_version,compute_mode,memory.total", "--format=csv,noheader").stdout.strip()


def main():
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=6)
    args = parsed(made)
    machine, rows = Machine(args), []
    gpu, already, tranche = settings(machine), leftovers(machine), f"{machine.bin}/tranche"
    seconds, blocks, together = str(args.seconds), 12, 4

    def row(what, promised, measured, holds):
        rows.append((what, promised, measured, holds))

    alone = time_sliced(machine, 1, blocks, args.seconds)
    sliced = time_sliced(machine, together, blocks, args.seconds)

    began = time.monotonic()
    node = Shared(machine)
    row("all slots registered and healthy", "within 60 s", f"{time.monotonic() - began:.1f} s after start", True)  # or there is no node
    small = [tranche, "probe", "--json", "--seconds", seconds, "--blocks", str(blocks), "--allocate", "10G", "--allocate", "10G"]
    pods = [pod(f"small-{i}", 1, small) for i in range(together)]
    ended = node.run_to_end([*pods, pod("third", 3, [tranche, "probe", "--json", "--seconds", "1", "--find-limit"])], 90 + 2 * args.seconds)
    device = (node.status().get("devices") or [{}])[0]
    total = device.get("memoryMiB", 0)
    share_mib, share_sms = device.get("slotMemoryMiB", 0), device.get("slotSms", 0)
    row("memory of one slot of ten", f"{total} MiB / 10", f"{share_mib} MiB", share_mib == total // SLOTS)

    reports = []
    for i in range(together):
        report = probe_result(ended[f"small-{i}"]) if f"small-{i}" in ended else {}
        reports.append(report)
        allocations = [a.get("granted") for a in report.get("allocations", [])]
        row(f"small-{i}: 10 GiB, then 10 GiB more under {share_mib} MiB", "granted, refused", allocations, allocations == [True, False])
        sms = report.get("sms", {})
        row(f"small-{i}: SMs", share_sms, f"{sms.get('attribute')} by attribute, {sms.get('seen')} seen",
            sms.get("attribute") == share_sms and 0 < sms.get("seen", 0) <= share_sms)
        answers = report.get("answers", {})
        row(f"small-{i}: right answers", "0 wrong words", f"{answers.get('wrong')} of {answers.get('checked')}", answers.get("wrong") == 0)
    third = probe_result(ended.get("third", {"containers": [{}]}))
    limit = 3 * total // SLOTS
    largest = third.get("memory", {}).get("largestAllocation", 0) >> 20
    row("three slots: largest allocation", f"under {limit} MiB, by less than 1 GiB", f"{largest} MiB", limit - 1024 < largest < limit)
    grant = next(iter(ended.get("third", {}).get("containers", [])), {})
    row("three slots: the grant's variables", f"={limit}M", (grant.get("envs") or {}).get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "")[-9:],
        (grant.get("envs") or {}).get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "").endswith(f"={limit}M"))

    shared_rate, sliced_rate, alone_rate = sum(map(rate, reports)), sum(map(rate, sliced)), sum(map(rate, alone))
    row(f"{together} probes of {blocks} blocks, blocks/s together", "≥ 2 × time-sliced",
        f"{shared_rate:,.0f} shared, {sliced_rate:,.0f} time-sliced ({shared_rate / max(sliced_rate, 1):.1f} ×); one alone {alone_rate:,.0f}",
        shared_rate >= 2 * sliced_rate > 0)
    row("compute mode", "untouched", settings(machine).split(", ")[2:3], settings(machine) == gpu)
    if not all(holds for *_, holds in rows):
        node.show_logs()
        print(json.dumps(reports)[:3000], json.dumps(ended)[:6000], sep="\n")
    killed = node.stop()
    print(title(machine))
    promises(rows)
    return 1 if clean(machine, killed, already) or killed or not all(holds for *_, holds in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
