"""Rows M4 of the mission, but for MIG: time-slicing and MPS on OpenShift's guide, on two A100 of 40 GB, with kubectl and this repository's manifests."""

from lib.installation import SOURCE, Node, uninstalled
from lib.machine import NODE
from lib.mission import GPU, SHARED, SIM, play, tenant
from lib.report import until

PRODUCT = "NVIDIA-A100-PCIE-40GB"
CONFIGS = {
    PRODUCT: "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 10}\n",
    "four": "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
    "mps-ten": "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 10}\n",
    "mps-four": "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
}


def time_slicing(m):
    report = m.report
    m.install(config={"map": CONFIGS, "fallbackStrategies": ["empty"]})
    m.check_amounts("M4.1 before: two GPUs", {GPU: 2})
    m.label_is({"nvidia.com/gpu.product": PRODUCT})
    m.kubectl("label", "node", f"--selector=nvidia.com/gpu.product={PRODUCT}", f"nvidia.com/device-plugin.config={PRODUCT}")
    m.check_amounts("M4.1 time-slicing, ten replicas, the configuration keyed by product name and the node labelled with it: capacity x 10", {GPU: 20})
    seen = m.label_is({"nvidia.com/gpu.product": f"{PRODUCT}-SHARED", "nvidia.com/gpu.replicas": "10", "nvidia.com/gpu.sharing-strategy": "time-slicing"})
    report.check("M4.1 the product label is …-SHARED", True, seen["nvidia.com/gpu.product"])
    m.choose("four", {GPU: 8})
    pod = tenant("eleven", {GPU: 1}, [f"{SIM}/sim-cuda", "--hold"])
    m.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "eleven"}, "spec": {"replicas": 11, "selector": {"matchLabels": {"app": "eleven"}},
             "template": {"metadata": {"labels": {"app": "eleven"}}, "spec": {**pod["spec"], "restartPolicy": "Always"}}}})

    def phases():
        return sorted(p["status"]["phase"] for p in m.get("pods", "-l", "app=eleven")["items"])
    wanted = ["Pending"] * 3 + ["Running"] * 8
    until("eight to run", lambda: phases() == wanted)
    waiting = next(p["metadata"]["name"] for p in m.get("pods", "-l", "app=eleven")["items"] if p["status"]["phase"] == "Pending")
    report.check("M4.1 eleven pods on eight slots: eight run, three wait, and the scheduler says for what", f"Insufficient {GPU}" in m.events(waiting), [phases().count("Running"), phases().count("Pending")])
    m.remove("deployment", "eleven")
    until("them to be gone", lambda: not m.get("pods", "-l", "app=eleven")["items"])


def mps(m):
    report = m.report
    m.choose("mps-ten", {GPU: 20})
    m.serves()
    report.check("M4.4 MPS, ten replicas: capacity 20 for two GPUs", m.api.amounts(GPU) == (20, 20))
    seen = m.label_is({"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "10", "nvidia.com/mps.capable": "true", "nvidia.com/gpu.product": f"{PRODUCT}-SHARED", "nvidia.com/gpu.count": "2"})
    report.check("M4.4 labels as in M2", True, {key: seen[key] for key in ("nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas", "nvidia.com/mps.capable")})
    log = m.kubectl("-n", "tranche", "logs", "-l", "app.kubernetes.io/component=mps", "--tail=-1").stdout
    lines = [line for line in log.splitlines() if "replicas=10" in line]
    report.check("M4.4 the daemons' limits on a 40 GB card, in the log: 4096M and 10", sum("limit_per_replica_mib=4096" in line and "client_limit_percent=10 " in line for line in lines) == 2, lines[-1:])
    m.choose("mps-four", {SHARED: 8})
    m.serves()
    m.start_workload()
    until("both loads to print", lambda: m.kubectl("logs", "-l", "app.kubernetes.io/name=tranche-products", "--tail=-1").stdout.count("on tensor cores") == 2)
    def pools():
        return m.world.tranche.status("/run/nvidia/mps/mps.sock")["pools"]
    until("seven clients", lambda: sum(len(endpoint["clients"]) for pool in pools() for endpoint in pool["endpoints"]) == 7)
    servers = [len(pool["servers"]) for pool in pools()]
    rows = m.shell(f"{SIM}/sim-node", "show").stdout
    kinds = [rows.count("mps-client"), rows.count("mps-server")]
    report.check("M4.5 a load in seven pods: each a client of MPS (nvidia-smi's M+C), one server a GPU", servers == [1, 1] and kinds == [7, 2], [servers, kinds, pools()[0]["clients"]])


def tenants(m):
    """deploy/samples as they are, for a namespace that allows least; and what runs has neither the host's IPC nor privileges."""
    report = m.report
    m.kubectl("create", "namespace", "tenants")
    m.kubectl("label", "namespace", "tenants", "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
    refused = []
    for name in ("probe.yaml", "job.yaml", "products.yaml"):
        done = m.kubectl("-n", "tenants", "apply", "--dry-run=server", "--validate=strict", "-f", f"{SOURCE}/deploy/samples/{name}", check=False)
        if done.returncode != 0 or done.stderr:
            refused.append([name, done.stderr])
    report.check("M4.6 the samples are taken, without a warning, in a namespace whose security level is restricted", not refused, refused)
    done = m.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", f"{SOURCE}/deploy/samples/cuda-samples.yaml", check=False)
    report.check("NVIDIA's CUDA samples: a strict dry run takes the manifests", done.returncode == 0 and done.stdout.count("created") == 3, done.stderr)
    running = m.get("pods", "-l", "app.kubernetes.io/name in (tranche-probe, tranche-products)")["items"]
    special = [p["metadata"]["name"] for p in running if p["spec"].get("hostIPC") or any(c.get("securityContext", {}).get("privileged") for c in p["spec"]["containers"])]
    report.check("M4.6 seven tenants compute, as user 65534, without hostIPC, privileges or capabilities", len(running) == 7 and not special and all(p["status"]["phase"] == "Running" for p in running), special)


def reset(m):
    before = m.before
    report = m.report
    m.helm("upgrade", "--reuse-values", "--set", "reset.enabled=true")
    said = until("the job to refuse", lambda: next((text for p in m.get("pods", "-n", "tranche", "-l", "app.kubernetes.io/component=reset")["items"]
                                                  if "tranche-probe-" in (text := m.kubectl("-n", "tranche", "logs", p["metadata"]["name"], check=False).stdout)), None))
    report.check("M4.7 reset while pods use the GPUs: refused, and they are named", said.count("tranche-p") >= 7 and m.labels().get("nvidia.com/gpu.count") == "2", said.splitlines()[:3])
    m.end_workload()
    m.kubectl("-n", "tranche", "wait", "--for=condition=complete", "job", "-l", "app.kubernetes.io/component=reset", "--timeout=120s")
    report.check("M4.7 … and when they have ended, the same job does it", True)
    m.kubectl("label", "node", NODE, "nvidia.com/device-plugin.config-")
    m.helm("uninstall", "--wait", "--timeout", "120s")
    until("the pods to be gone", lambda: not m.get("pods", "-n", "tranche")["items"])
    uninstalled(m.report, before, Node(m.world))
    modes = m.shell(f"{SIM}/sim-node", "show").stdout
    report.check("M4.7 compute modes are given back", "exclusive" not in modes.lower(), modes.splitlines()[:3])


def run(world):
    play(world, "M4: time-slicing and MPS on OpenShift's guide", "A100-PCIE-40GB", 2, time_slicing, mps, tenants, reset)
