"""Installed by Helm from the image that deploy/image makes: the two DaemonSets as pods of a real cluster, with the rights and
the mounts that the chart gives them and no others. Rows are those of tests/cluster/README.md."""

import os
import signal
import subprocess

from lib import driver_root
from lib.helm import find
from lib.installation import EMPTY, MERGE, MPS, PODS, SOURCE, Cluster, Node, begin
from lib.pods import container, cuda, events, pod
from lib.report import until
from lib.tranche import sharing

from .cluster import APPS, deployment

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
TOTAL = 143771  # MiB of an H200


def renamed(replicas):
    return sharing("mps", replicas).replace("  mps:\n", "  mps:\n    renameByDefault: true\n")


INDIVIDUAL = sharing("mps", 20) + "      names: gpu%d\n"
CONFIGS = {"mps-four": renamed(4), "mps-two": renamed(2), "aggregate": sharing("mps", 20), "individual": INDIVIDUAL, "ten": sharing("mps", 10).replace("    failRequestsGreaterThanOne: false\n", ""),
           "time-slicing": sharing("timeSlicing", 10)}


def dry_run(cluster):
    """The manifests that are kept beside the chart, and what Helm makes for each platform, as the server would take them."""
    api, refused = cluster.api, []
    policies = "/apis/admissionregistration.k8s.io/v1"
    places = {"ValidatingAdmissionPolicy": f"{policies}/validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": f"{policies}/validatingadmissionpolicybindings",
              "Service": "/api/v1/namespaces/tranche/services", "ServiceAccount": "/api/v1/namespaces/tranche/serviceaccounts",
              "ConfigMap": "/api/v1/namespaces/tranche/configmaps", "DaemonSet": "/apis/apps/v1/namespaces/tranche/daemonsets",
              **{kind: f"/apis/rbac.authorization.k8s.io/v1/{kind.lower()}s" for kind in ("ClusterRole", "ClusterRoleBinding")},
              **{kind: f"/apis/rbac.authorization.k8s.io/v1/namespaces/tranche/{kind.lower()}s" for kind in ("Role", "RoleBinding")}}
    folders = [f"{SOURCE}/deploy/static", f"{SOURCE}/deploy/values"]
    kept, values = [[f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(".yaml") and name != "kustomization.yaml"] for folder in folders]
    texts = {path: cluster.helm("template", "-f", path).stdout for path in values}
    for path in kept:
        with open(path) as file:
            texts[path] = file.read()
    count = 0
    for name, made in texts.items():
        documents = [text for text in made.split("\n---\n") if "\nkind: " in f"\n{text}"]
        for text in documents:
            kind = next(line.split()[1] for line in text.splitlines() if line.startswith("kind: "))
            if kind in ("Namespace", "PodMonitor"):
                continue
            status, answer = api.call("POST", f"{places[kind]}?dryRun=All&fieldValidation=Strict", text, kind="application/yaml")
            count += 1
            if status != 201:
                refused.append(f"{name}: {kind}: {status} {str(answer)[:300]}")
    cluster.report.check(f"the API server takes each of {count} manifests, kept and made for each platform, in a strict dry run", count and not refused, refused)


def install(cluster):
    report, api = cluster.report, cluster.api
    bad = cluster.helm("install", "--set", "migStrategy=singel", values=cluster.values(), check=False)
    report.check("a value that is none is refused with the words that there are", bad.returncode != 0 and "'none', 'single', 'mixed'" in bad.stderr, bad.stderr[-120:].strip())
    cluster.helm("install", values=cluster.values())
    until("both pods to be ready", lambda: cluster.ready("node") and cluster.ready("mps"))
    node = cluster.ready("node")
    report.check("M1.1 installed with one command: node agent and MPS pod are ready", True)
    states = {p["id"]: p["state"] for p in cluster.world.tranche.status(MPS)["pools"]}
    report.check("ready means that every pool serves", list(states.values()) == ["serving"] * 2, states)
    context = node["spec"]["containers"][0]["securityContext"]
    report.check("the node agent has two capabilities, no privileges and a root that it cannot write",
                 context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE", "KILL"]}}, context)
    cluster.serves("mps-four")
    report.check("M1.3 the ConfigMap's MPS configuration makes control daemons appear", len(cluster.world.tranche.status(MPS)["pools"]) == 2)
    cluster.amounts({GPU: 0, SHARED: 8}, "M1.4 two GPUs: nvidia.com/gpu 0 and nvidia.com/gpu.shared 8, capacity and allocatable")
    report.check("M2.1 M2.4 several named configurations, set at install; an unlabelled node gets the default",
                 cluster.world.tranche.status()["config"].get("chosenBy") == "default", cluster.world.tranche.status()["config"])
    wanted = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true"}
    seen = until("the labels", lambda: (got := cluster.labels()) and wanted.items() <= got.items() and got)
    report.check("M2.6 labels: physical count, replicas, strategy, mps.capable; the product without -SHARED, since the resource is renamed",
                 not seen["nvidia.com/gpu.product"].endswith("-SHARED"), {key: seen[key] for key in [*wanted, "nvidia.com/gpu.product"]})
    status = cluster.world.tranche.status()
    report.check("nothing is kept from it: cluster, guard, labels", not status.get("guard", {}).get("notInForce") and status.get("labelOutput", {}).get("state") == "written",
                 [status.get("guard", {}).get("notInForce"), status.get("labelOutput")])
    conditions = {c["type"]: c for c in api.node()["status"]["conditions"]}
    report.check("the node says TrancheReady", conditions.get("TrancheReady", {}).get("status") == "True", conditions.get("TrancheReady"))
    for what, port in (("node", 9400), ("mps", 9401)):
        page = subprocess.run(["busybox", "wget", "-q", "-O", "-", f"http://127.0.0.1:{port}/metrics"], capture_output=True, text=True, check=False).stdout
        report.check(f"{what}: metrics are served", "tranche_build_info" in page)


def share(cluster):
    report = cluster.report
    cluster.api.create(APPS, deployment("verify", 5, pod("verify", {SHARED: 1}, cuda("--allocate", "1G", "--kernel-ms", "1", "--hold", "--report-every", "1"))))
    five = until("five replicas to run", lambda: len(found := [p for p in cluster.api.pods("app=verify") if p["status"].get("phase") == "Running"]) == 5 and found)
    names = [p["metadata"]["name"] for p in five]
    attached = until("five clients to attach", lambda: len(got := [e for said in cluster.client_events(names).values() for e in said if e.get("event") == "attached"]) == 5 and got)
    limits = sorted({(e["limit"] >> 20) for e in attached})
    report.check("M2.8 five replicas of the verification workload run, each with a quarter of a GPU's memory", limits == [TOTAL // 4], limits)
    return names


def configure(cluster, names):
    report, api = cluster.report, cluster.api
    def config():
        return cluster.world.tranche.status().get("config", {})

    before = config()["hash"]
    api.call("PATCH", "/api/v1/namespaces/tranche/configmaps/tranche-configs", {"data": {"mps-four": renamed(5)}}, kind=MERGE)
    until("the edit to be in force", lambda: config().get("hash") not in (None, before))
    report.check("M2.5 the ConfigMap is edited: in force by itself", not config()["problems"], config()["problems"])
    until("kubelet to have reported", lambda: api.amounts(SHARED)[0] == 10)
    report.check("M2.5 ten slots, of which as many are allocatable as what is held leaves room for", api.amounts(SHARED)[1] <= 10, api.amounts(SHARED))
    cluster.go_on(names, "M2.5 and running pods are undisturbed")
    api.call("PATCH", "/api/v1/namespaces/tranche/configmaps/tranche-configs", {"data": {"mps-four": renamed(4)}}, kind=MERGE)
    cluster.amounts({SHARED: 8}, "M2.5 and back")


def upgrade(cluster, names, image):
    report, tag = cluster.report, "v0.1.0-newer"
    newer = f"{image.rpartition(':')[0]}:{tag}"
    cluster.world.runtime.ctr("images", "tag", image, newer)
    old_node, old_mps = cluster.ready("node"), cluster.ready("mps")
    cluster.helm("upgrade", values=cluster.values(image={"tag": tag}))
    node = until("the newer node agent", lambda: cluster.ready("node", newer))
    mps = cluster.ready("mps")
    report.check("upgraded: the node agent is replaced, the owner of the daemons is not",
                 node["metadata"]["uid"] != old_node["metadata"]["uid"] and mps["metadata"]["uid"] == old_mps["metadata"]["uid"])
    cluster.amounts({SHARED: 8}, "upgraded: the same slots")
    cluster.go_on(names, "upgraded: running pods are undisturbed")


def choose(cluster):
    report = cluster.report
    cluster.label("mps-two")
    cluster.serves("mps-two")
    cluster.amounts({GPU: 0, SHARED: 4}, "M2.2 the node is labelled mps-two: it changes")
    cluster.label("time-slicing")
    cluster.serves("time-slicing")
    cluster.amounts({GPU: 20}, "M4.1 time-slicing with 10 replicas: capacity times ten")
    product = until("the label", lambda: (p := cluster.labels().get("nvidia.com/gpu.product", "")).endswith("-SHARED") and p)
    report.check("M4.1 the product label ends with -SHARED", True, product)
    cluster.label("ten")
    cluster.serves("ten")
    cluster.amounts({GPU: 20}, "M4.4 MPS with 10 replicas: capacity 20 for two GPUs")
    limits = [[limit["memoryMiB"], limit["threads"]] for p in cluster.world.tranche.status(MPS)["pools"] for limit in p["limits"]]
    report.check("M4.4 the daemons' limits are a tenth, as read back", limits == [[TOTAL // 10, "10"]] * 2, limits)
    cluster.label("aggregate")
    cluster.serves("aggregate")
    cluster.amounts({GPU: 40}, "M3.2 aggregate, 2 GPUs x 20: nvidia.com/gpu 40")
    lines = [line for line in cluster.world.kubelet.log(cluster.ready("mps")).splitlines() if "Set device pinned" in line and "replicas=20 limit_per_replica_mib=7188" in line]
    report.check("M3.4 the MPS pod's log says each GPU's limit", all(any(f"device={gpu} total_memory_gb=140.4" in line for line in lines) for gpu in (0, 1)), lines[-1:])
    half = cluster.client("half", {GPU: 10})
    report.check("M3.2 a pod that asks 10 has 10/20 of one GPU's memory", half["limit"] >> 20 == TOTAL // 2, half)
    cluster.api.remove("half")
    cluster.label("individual")
    cluster.serves("individual")
    cluster.amounts({f"{GPU}0": 20, f"{GPU}1": 20}, "M3.3 individual: nvidia.com/gpu0 and nvidia.com/gpu1 with 20 each")
    # Scenario "shares" checks this in detail: the endpoint has both GPUs once kubelet names the container.
    worker = container("main", {f"{GPU}0": 5, f"{GPU}1": 5}, ["/bin/sh", "-c", "sleep 3; exec /usr/bin/sim-cuda --all-devices --hold"],
                       {"NVIDIA_VISIBLE_DEVICES": ",".join(cluster.world.tranche.gpus())})
    cluster.api.add(pod("both", containers=[worker]))
    found = cluster.api.until_phase("both", "Running")
    on = until("contexts on both GPUs", lambda: len(got := [e for e in events(cluster.world.kubelet.log(found)) if e.get("event") == "attached"]) == 2 and got)
    report.check("M3.3 a pod that asks 5 of each computes on both, with 5/20 of each", [e["limit"] >> 20 for e in on] == [TOTAL // 4] * 2,
                 [(e["gpu"], e["limit"] >> 20) for e in on])
    cluster.api.remove("both")


def outlive(cluster):
    """mps.daemonHome: host. The daemons live in the host, from the driver root as the host has it; their owner's pod is replaced under a tenant."""
    report = cluster.report
    cluster.label("ten")
    cluster.serves("ten")
    values = cluster.values(image={"tag": "v0.1.0-newer"})
    values["mps"]["daemonHome"] = "host"
    cluster.helm("upgrade", values=values)

    def replaced(old):
        cluster.api.call("DELETE", f"{PODS}/{old['metadata']['name']}")
        return until("another MPS pod", lambda: (p := cluster.ready("mps")) and p["metadata"]["uid"] != old["metadata"]["uid"] and p)

    first = replaced(cluster.ready("mps"))
    report.check("updated on delete: the pod that comes has the daemons in the host", "--daemon-home=host" in first["spec"]["containers"][0]["args"])
    cluster.serves("ten")
    cluster.client("tenant", {GPU: 1})
    before = sorted(p["daemonPid"] for p in cluster.world.tranche.status(MPS)["pools"])
    replaced(first)
    cluster.serves("ten")
    after = sorted(p["daemonPid"] for p in cluster.world.tranche.status(MPS)["pools"])
    report.check("daemonHome host: the MPS pod is replaced, the daemons are the same", before == after and len(after) == 2 and all(after), [before, after])
    cluster.go_on(["tenant"], "daemonHome host: the tenant is undisturbed")
    os.kill(cluster.world.tranche.status(MPS)["pid"], signal.SIGKILL)
    until("tranche mps to be there again", lambda: (cluster.world.tranche.status(MPS) or {}).get("pools"))
    cluster.serves("ten", 120)
    crashed = sorted(p["daemonPid"] for p in cluster.world.tranche.status(MPS)["pools"])
    report.check("daemonHome host: tranche mps is killed, the daemons are the same", before == crashed, [before, crashed])
    cluster.go_on(["tenant"], "daemonHome host: the tenant is undisturbed by that")
    cluster.client("newcomer", {GPU: 1})
    report.check("daemonHome host: a new tenant comes in", True)
    for name in ("tenant", "newcomer"):
        cluster.api.remove(name)


def without_default(cluster):
    cluster.label(None)
    silent = cluster.helm("upgrade", values=cluster.values(config={"map": cluster.map}, image={"tag": "v0.1.0-newer"}), check=False)
    cluster.report.check("no default, and none is chosen: the chart refuses", silent.returncode != 0 and "write config.default" in silent.stderr, silent.stderr[-200:])
    cluster.helm("upgrade", values=cluster.values(config={"map": cluster.map, "fallbackStrategies": ["empty"]}, image={"tag": "v0.1.0-newer"}))
    # Daemons in the host end with the configuration that wants them, not with a pod.
    until("every pool to end", lambda: not cluster.world.tranche.status(MPS).get("pools"))
    cluster.amounts({GPU: 2}, "M2.3 no default: an unlabelled node offers its GPUs as they are", 120)


def uninstalled(report, before, after):
    report.check("uninstalled: no process is left", after.processes == before.processes, after.processes)
    report.check("uninstalled: no mount is left", after.mounts == before.mounts, after.mounts)
    left = sorted(path for path, what in after.files.items() if before.files.get(path) != what)
    report.check("uninstalled: files are as found, but for folders that the pods had mounted, which are empty", set(left) <= EMPTY and set(before.files) <= set(after.files), left[:20])
    report.check("uninstalled: labels and annotations are as found", (after.labels, after.annotations) == (before.labels, before.annotations), [sorted(after.labels)[:5], after.annotations])


def uninstall(cluster, before):
    report, world = cluster.report, cluster.world
    held = cluster.helm("upgrade", "--wait", "--wait-for-jobs", "--timeout", "150s", values=cluster.values(reset={"enabled": True}, image={"tag": "v0.1.0-newer"}), check=False)
    said = [line for p in cluster.pods("reset") for line in world.kubelet.log(p).splitlines()]
    report.check("reset: a job on the node takes away what was left there", held.returncode == 0 and said, [held.stderr[-200:] if held.returncode else "", *said[-3:]])
    cluster.helm("uninstall", "--wait", "--timeout", "120s")
    until("the pods to be gone", lambda: not cluster.pods("node") and not cluster.pods("mps"))
    report.check("uninstalled: no object of the release is left in the cluster", not [
        item["metadata"]["name"] for path in ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                                              "/apis/apps/v1/namespaces/tranche/daemonsets", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies") for item in cluster.api.call("GET", path)[1]["items"]
        if item["metadata"]["name"].startswith("tranche")])
    uninstalled(report, before, Node(world))
    conditions = [c["type"] for c in cluster.api.node()["status"]["conditions"]]
    report.check("uninstalled: the node says nothing of Tranche any more", "TrancheReady" not in conditions, conditions)


def run(world):
    report, kubelet, tranche, api = world.report, world.kubelet, world.tranche, world.control_plane
    report.start("the chart and the image")
    program = find(world.binaries, world.build)
    if not program:
        print("SKIPPED: there is no Helm; build-programs makes it with Go, or name one in $TRANCHE_HELM", flush=True)
        report.check("the chart: skipped without Helm", True)
        return
    driver_root.make(world.build)
    tranche.make_gpus(2)
    image = begin(world)
    before = Node(world)
    cluster = Cluster(world, program, CONFIGS, "mps-four")
    dry_run(cluster)
    install(cluster)
    names = share(cluster)
    configure(cluster, names)
    upgrade(cluster, names, image)
    api.call("DELETE", f"{APPS}/verify?propagationPolicy=Foreground")
    until("the workload to be gone", lambda: not api.pods())
    choose(cluster)
    outlive(cluster)
    without_default(cluster)
    unhealthy = [e["message"] for e in api.call("GET", "/api/v1/namespaces/tranche/events")[1]["items"] if e.get("reason") == "Unhealthy" and "Liveness" in e["message"]]
    report.check("no liveness probe has failed", not unhealthy, unhealthy[:2])
    uninstall(cluster, before)
    kubelet.stop()
    api.stop()
