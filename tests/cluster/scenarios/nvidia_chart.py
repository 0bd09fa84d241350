"""The flavour compat of our image in the place of NVIDIA's, in NVIDIA's own chart: its three DaemonSets with their names, mounts,
variables and rights (lib/nvidia_chart.py), first with the chart's defaults, then with configurations that a label chooses."""


from lib.containers import called, restarts
from lib.nvidia_chart import GFD, MPS, NAMESPACE, PLUGIN, Chart
from lib.nvidia_objects import apply
from lib.nvidia_world import play
from lib.report import until
from lib.tranche import sharing

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
CAPABLE = "nvidia.com/mps.capable"
TOTAL = 143771  # MiB of an H200
PROGRAMS = {PLUGIN: "nvidia-device-plugin", GFD: "gpu-feature-discovery", MPS: "mps-control-daemon"}
MAY_CHANGE = {"nvidia.com/gfd.timestamp"}


def configurations():
    mps = sharing("mps", 4).replace("  mps:\n", "  mps:\n    renameByDefault: true\n")
    return {"slices": sharing("timeSlicing", 3), "mps-four": mps.replace("    failRequestsGreaterThanOne: false\n", "")}


def as_it_comes(nvidia):
    """The chart's defaults, and GFD."""
    report = nvidia.report
    apply(nvidia.api, Chart(nvidia.image).objects())
    plugin = nvidia.set_pod(PLUGIN)
    nvidia.amounts({GPU: 2}, "defaults: the plugin runs by its name alone, and kubelet has two GPUs")
    report.check("defaults: without any capability, as the chart has it", int(nvidia.capabilities(plugin, "nvidia-device-plugin"), 16) == 0, nvidia.capabilities(plugin, "nvidia-device-plugin"))
    labels = until("labels", lambda: (got := nvidia.labels()).get("nvidia.com/gpu.count") and got)
    wanted = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none", CAPABLE: "false", "nvidia.com/mig.capable": "true"}
    report.check("defaults: feature discovery's labels, by a NodeFeature object and rights to create and update", wanted.items() <= labels.items(), {key: labels.get(key) for key in wanted})
    report.check("defaults: no MPS pod, since nothing is capable of it", nvidia.no_pod(MPS))
    said = nvidia.output_of("whole", {GPU: 1})
    given = said.env.get("NVIDIA_VISIBLE_DEVICES")
    at = nvidia.gpus.index(given) if given in nvidia.gpus else None
    report.check("defaults: a pod of one unit has one GPU and its node", at is not None and f"nvidia{at}" in said.nodes and f"nvidia{1 - at}" not in said.nodes, [given, sorted(said.nodes)])
    for name in (PLUGIN, GFD):
        nvidia.ends_soon(name, PROGRAMS[name])
    nvidia.amounts({GPU: 2}, "defaults: two GPUs again with the next pod")


def configured(nvidia):
    report = nvidia.report
    apply(nvidia.api, Chart(nvidia.image, configurations(), "slices").objects())
    until("the plugin with a sidecar", lambda: len(nvidia.set_pod(PLUGIN)["spec"]["containers"]) == 2)
    nvidia.amounts({GPU: 6}, "config.map: the default is in force from the start, three slices of each GPU", 90)
    until("feature discovery with a sidecar", lambda: len(nvidia.set_pod(GFD)["spec"]["containers"]) == 2)
    until("labels", lambda: nvidia.labels().get("nvidia.com/gpu.replicas") == "3")
    report.check("config.map: feature discovery shows the same", nvidia.labels().get("nvidia.com/gpu.product", "").endswith("-SHARED"), nvidia.labels().get("nvidia.com/gpu.product"))
    said = nvidia.output_of("slice", {GPU: 1})
    report.check("time-slicing: a pod of one unit has one GPU", said.env.get("NVIDIA_VISIBLE_DEVICES") in nvidia.gpus, said.env.get("NVIDIA_VISIBLE_DEVICES"))

    nvidia.choose("mps-four")
    mps = nvidia.set_pod(MPS)
    nvidia.amounts({GPU: 0, SHARED: 8}, "labelled mps-four: the sidecars switch, the MPS pod comes by its label, eight slots", 90)
    report.check("labelled mps-four: mps.capable brought it", nvidia.labels().get(CAPABLE) == "true")
    for name in (PLUGIN, GFD, MPS):
        again = restarts(nvidia.set_pod(name))
        report.check(f"{PROGRAMS[name]}: no container of its pod had to start again", not any(again.values()), again)
    report.check("the MPS pod: mount-shm ended well and says why it has nothing to do", "nothing to do" in nvidia.said(mps, "mps-control-daemon-mounts"))
    attached = nvidia.client("tenant", {SHARED: 1})
    report.check("a pod of one slot has a quarter of one GPU's memory", attached["limit"] >> 20 == TOTAL // 4, attached)
    said = nvidia.output_of("slot", {SHARED: 1})
    report.check("... through an endpoint of its own, read-only, and not the daemon's folder", said.mounts.get("/run/tranche/mps", "").startswith("ro") and "control" in said.endpoint, [said.endpoint, said.env.get("CUDA_MPS_PIPE_DIRECTORY")])


def disturbed(nvidia):
    """Restarts, kills, and an edit; a tenant of MPS goes on."""
    report = nvidia.report
    states = len(nvidia.features.seen)
    before = nvidia.labels()
    nvidia.ends_soon(GFD, PROGRAMS[GFD])
    nvidia.kill(GFD, "gpu-feature-discovery")
    nvidia.ends_soon(PLUGIN, PROGRAMS[PLUGIN])
    nvidia.kill(PLUGIN, "nvidia-device-plugin")
    nvidia.kill(PLUGIN, "nvidia-device-plugin")
    nvidia.amounts({GPU: 0, SHARED: 8}, "restarted and killed: the same slots")
    nvidia.world.go_on("restarted and killed: a tenant is undisturbed", "tenant")
    attached = nvidia.client("next", {SHARED: 1})
    report.check("restarted and killed: the next tenant comes in, with its limit", attached["limit"] >> 20 == TOTAL // 4, attached)
    wanted = {key: value for key, value in before.items() if key not in MAY_CHANGE}
    missing = [{key for key, value in wanted.items() if key in seen_keys(nvidia) and seen.get(key) != value} for seen in nvidia.features.seen[states:]]
    report.check("feature discovery restarted and killed: no label went or changed meanwhile", not any(missing) and wanted.items() <= nvidia.labels().items(), missing)
    for name in ("tenant", "next"):
        nvidia.api.remove(name)

    nvidia.kill(MPS, "mps-control-daemon")
    nvidia.amounts({GPU: 0, SHARED: 8}, "the owner of the daemons killed: as many slots", 90)
    attached = nvidia.client("after", {SHARED: 1})
    report.check("the owner of the daemons killed: a tenant comes in afterwards", attached["limit"] >> 20 == TOTAL // 4, attached)
    nvidia.ends_soon(MPS, PROGRAMS[MPS])  # a client that goes on is given 10 s
    nvidia.amounts({GPU: 0, SHARED: 8}, "the MPS pod deleted under a tenant: as many slots with the next")
    nvidia.api.remove("after")
    nvidia.ends_soon(MPS, PROGRAMS[MPS])


def seen_keys(nvidia):
    return {key for seen in nvidia.features.seen for key in seen}


def back(nvidia):
    report = nvidia.report
    nvidia.choose("slices")
    until("the MPS pod to go", lambda: nvidia.no_pod(MPS))
    nvidia.amounts({GPU: 6, SHARED: 0}, "labelled slices: the MPS pod goes, six slices", 60)
    report.check("labelled slices: mps.capable is false, the compute modes are as before", nvidia.labels().get(CAPABLE) == "false" and "exclusive" not in nvidia.modes())
    edited = {"slices": sharing("timeSlicing", 5)}
    nvidia.api.call("PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{PLUGIN}-configs", {"data": edited})
    nvidia.amounts({GPU: 10}, "the ConfigMap is edited: in force by itself", 90)
    until("labels to follow", lambda: nvidia.labels().get("nvidia.com/gpu.replicas") == "5")
    report.check("the ConfigMap is edited: the labels show it", True)
    nvidia.choose(None)
    plugin = nvidia.set_pod(PLUGIN)
    report.check("the plugin is still the process that its label was taken from", called(plugin, "nvidia-device-plugin") is not None)
    nvidia.amounts({GPU: 10}, "the label is taken away: the default")


def avoids(nvidia):
    """docs/guide/migrate.md, "NVIDIA's chart": with OnDelete and an affinity against a label, pods stay as they are until their node has the label."""
    sets = [item for item in Chart(nvidia.image, configurations(), "slices").objects() if item["kind"] == "DaemonSet"]
    for item in sets:
        item["spec"]["updateStrategy"] = {"type": "OnDelete"}
        item["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}, {"key": "gpu-stack", "operator": "DoesNotExist"}]}]}}}
    before = [nvidia.set_pod(name)["metadata"]["uid"] for name in (PLUGIN, GFD)]
    apply(nvidia.api, sets)
    until("the controllers to have seen the change", lambda: all(item["status"].get("observedGeneration") == item["metadata"]["generation"] for item in
          nvidia.api.call("GET", f"/apis/apps/v1/namespaces/{nvidia.namespace}/daemonsets")[1]["items"]))
    nvidia.report.check("OnDelete and an affinity against a label: no pod is restarted", before == [nvidia.set_pod(name)["metadata"]["uid"] for name in (PLUGIN, GFD)])
    nvidia.label(**{"gpu-stack": "none"})
    until("the pods to leave the labelled node", lambda: nvidia.no_pod(PLUGIN) and nvidia.no_pod(GFD))
    nvidia.report.check("the node is labelled: the pods leave it", True)
    nvidia.label(**{"gpu-stack": None})
    nvidia.amounts({GPU: 10}, "the label is taken away: they serve again", 90)


def run(world):
    play(world, "our image in NVIDIA's chart", NAMESPACE, as_it_comes, configured, disturbed, back, avoids)
