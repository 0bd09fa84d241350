#!/usr/bin/env python3
"""A real GPU shared by the real programs: `tranche mps` and `tranche node` (compute mode left alone) with the kubelet
double, containers as mount namespaces, `tranche probe` as every container's program. Prints a table and exits 1 when a
row does not hold. Needs root, a GPU with MPS (Volta or newer), and a build: BIN (build/bin) and STANDINS.

Run on an idle GPU: it changes no setting of it, and leaves no process behind (which is its last row)."""

import argparse, json, os, re, signal, subprocess, sys, tempfile, time

SLOTS = 10
RESOURCE = "nvidia.com/gpu.shared"
rows = []


def row(what, promised, measured, holds):
    rows.append((what, str(promised), str(measured), "holds" if holds else "DOES NOT HOLD"))


def run(*argv, **kw):
    return subprocess.run(argv, capture_output=True, text=True, **kw)


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {}


def wait_for(what, probe, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = probe()
        if value:
            return value
        time.sleep(0.05)
    print(f"gave up waiting for {what}", file=sys.stderr)
    return None


def pod(name, slots, command):
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "command": command, "resources": {"limits": {RESOURCE: slots}}}]}})


class Node:
    """The programs of one node in a scratch directory."""

    def __init__(self, args, config, pods):
        self.args, self.dir = args, tempfile.mkdtemp(prefix="trn.", dir="/tmp")
        for name in ("plugins", "run", "mps", "logs"):
            os.mkdir(f"{self.dir}/{name}")
        open(f"{self.dir}/config.yaml", "w").write(config)
        open(f"{self.dir}/pods.yaml", "w").write("\n---\n".join(pods))
        self.parts = {}
        tranche = f"{args.bin}/tranche"
        self.start("kubelet", f"{args.standins}/sim-kubelet", "--plugin-dir", self.path("plugins"), "--pod-resources-socket",
                   self.path("run/pr.sock"), "--pods", self.path("pods.yaml"), "--state-file", self.path("run/kubelet.json"),
                   "--containers", args.containers)
        self.began = time.monotonic()
        self.start("mps", tranche, "mps", "--config-file", self.path("config.yaml"), "--mps-root", self.path("mps"), "--log-format", "text")
        self.start("node", tranche, "node", "--config-file", self.path("config.yaml"), "--mps-root", self.path("mps"), "--plugin-dir",
                   self.path("plugins"), "--pod-resources-socket", self.path("run/pr.sock"), "--run-dir", self.path("run"), "--log-format", "text")

    def path(self, name):
        return f"{self.dir}/{name}"

    def start(self, name, *argv):
        log = open(self.path(f"logs/{name}"), "w")
        self.parts[name] = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kubelet(self):
        try:
            return json.load(open(self.path("run/kubelet.json")))
        except (OSError, ValueError):
            return {}

    def status(self):
        return last_json(run(f"{self.args.bin}/tranche", "status", "--json", "--socket", self.path("run/node.sock")).stdout)

    def pods(self):
        return {p["name"]: p for p in self.kubelet().get("pods", [])}

    def all_ended(self):
        pods = self.pods()
        return pods if pods and all(p["phase"] in ("Succeeded", "Failed") for p in pods.values()) else None

    def stop(self):
        for name in ("kubelet", "node", "mps"):
            part = self.parts[name]
            part.send_signal(signal.SIGTERM)
            try:
                part.wait(20)
            except subprocess.TimeoutExpired:
                part.kill()
                row(f"stop of {name}", "ends within 20 s", "had to be killed", False)

    def logs(self):
        for name in self.parts:
            print(f"---- {name}"); print(open(self.path(f"logs/{name}")).read()[-3000:])


def probe_result(pod_state):
    """The report that `tranche probe --json` left as its last line."""
    container = pod_state["containers"][0]
    for key in ("last_output_json", "last_json"):
        if isinstance(container.get(key), dict):
            return container[key]
    return last_json("\n".join(container.get("output", [])))


def time_sliced(args, processes, blocks, seconds):
    probes = [subprocess.Popen([f"{args.bin}/tranche", "probe", "--json", "--seconds", str(seconds), "--blocks", str(blocks)],
                               stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return [last_json(p.communicate()[0]) for p in probes]


def rate(report):
    return (report.get("throughput") or {}).get("blocksPerSecond", 0.0)


def mps_processes():
    out = run("ps", "-eo", "pid,args").stdout
    return [l for l in out.splitlines() if re.search(r"nvidia-cuda-mps|sim-kubelet|tranche (mps|node|probe)", l)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--standins", default="build/standins")
    parser.add_argument("--containers", default="namespaces")
    parser.add_argument("--seconds", type=float, default=6)
    args = parser.parse_args()
    args.bin, args.standins = os.path.abspath(args.bin), os.path.abspath(args.standins)

    gpu = run("nvidia-smi", "--query-gpu=name,driver_version,compute_mode,memory.total", "--format=csv,noheader").stdout.strip()
    before = mps_processes()
    tranche = f"{args.bin}/tranche"
    seconds, blocks, together = str(args.seconds), 12, 4

    alone = time_sliced(args, 1, blocks, args.seconds)
    sliced = time_sliced(args, together, blocks, args.seconds)

    config = f"""version: v1
sharing:
  mps:
    renameByDefault: true
    failRequestsGreaterThanOne: false
    computeMode: leave
    resources:
    - name: nvidia.com/gpu
      replicas: {SLOTS}
"""
    small = [tranche, "probe", "--json", "--seconds", seconds, "--blocks", str(blocks), "--allocate", "10G", "--allocate", "10G"]
    pods = [pod(f"small-{i}", 1, small) for i in range(together)]
    pods.append(pod("third", 3, [tranche, "probe", "--json", "--seconds", "1", "--find-limit"]))
    node = Node(args, config, pods)
    registered = wait_for("registration", lambda: any(r.get("registered") and r["healthy"] == SLOTS for r in node.status().get("resources", [])), 60)
    row("all slots registered and healthy", "within 60 s", f"{time.monotonic() - node.began:.1f} s after start" if registered else "never", bool(registered))
    ended = wait_for("the pods to end", node.all_ended, 90 + 2 * args.seconds)
    status = node.status()
    device = (status.get("devices") or [{}])[0]
    total = device.get("memoryMiB", 0)
    share_mib, share_sms = device.get("slotMemoryMiB", 0), device.get("slotSms", 0)
    row("memory of one slot of ten", f"{total} MiB / 10", f"{share_mib} MiB", share_mib == total // SLOTS)

    reports = []
    for i in range(together):
        state = (ended or node.pods()).get(f"small-{i}")
        report = probe_result(state) if state else {}
        reports.append(report)
        allocations = [a.get("granted") for a in report.get("allocations", [])]
        row(f"small-{i}: 10 GiB, then 10 GiB more under {share_mib} MiB", "granted, refused", allocations, allocations == [True, False])
        sms = report.get("sms", {})
        row(f"small-{i}: SMs", share_sms, f"{sms.get('attribute')} by attribute, {sms.get('seen')} seen",
            sms.get("attribute") == share_sms and 0 < sms.get("seen", 0) <= share_sms)
        answers = report.get("answers", {})
        row(f"small-{i}: right answers", "0 wrong words", f"{answers.get('wrong')} of {answers.get('checked')}", answers.get("wrong") == 0)
    third = probe_result((ended or node.pods()).get("third", {"containers": [{}]}))
    limit = 3 * total // SLOTS
    largest = third.get("memory", {}).get("largestAllocation", 0) >> 20
    row("three slots: largest allocation", f"under {limit} MiB, by less than 1 GiB", f"{largest} MiB", limit - 1024 < largest < limit)
    grant = next((c for p in node.pods().values() for c in p["containers"] if p["name"] == "third"), {})
    row("three slots: the grant's variables", f"={limit}M", (grant.get("envs") or {}).get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "")[-9:],
        (grant.get("envs") or {}).get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "").endswith(f"={limit}M"))

    shared_rate, sliced_rate, alone_rate = sum(map(rate, reports)), sum(map(rate, sliced)), sum(map(rate, alone))
    row(f"{together} probes of {blocks} blocks, blocks/s together", "≥ 2 × time-sliced",
        f"{shared_rate:,.0f} shared, {sliced_rate:,.0f} time-sliced ({shared_rate / max(sliced_rate, 1):.1f} ×); one alone {alone_rate:,.0f}",
        shared_rate >= 2 * sliced_rate > 0)
    node.stop()
    left = [p for p in mps_processes() if p not in before]
    row("processes left after stop", "none", len(left), not left)
    row("compute mode", "untouched", run("nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader").stdout.strip(),
        run("nvidia-smi", "--query-gpu=name,driver_version,compute_mode,memory.total", "--format=csv,noheader").stdout.strip() == gpu)

    if any(r[3] != "holds" for r in rows):
        node.logs()
        print(json.dumps(reports)[:3000]); print(json.dumps(node.kubelet())[:6000]); print("left:", left)
    print(f"GPU: {gpu}   {time.strftime('%Y-%m-%d', time.gmtime())}")
    print("| what | promised | measured | |\n| --- | --- | --- | --- |")
    for r in rows:
        print("| " + " | ".join(r) + " |")
    return 0 if all(r[3] == "holds" for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
