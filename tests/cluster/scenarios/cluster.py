"""A whole cluster of one node: capacity, scheduling, restarts of everyone under running pods, a GPU that fails and recovers."""

from lib.pods import PodOutput, cuda, events, pod
from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"
APPS = "/apis/apps/v1/namespaces/default/deployments"


def deployment(name, replicas, spec):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": dict(spec["spec"], restartPolicy="Always")}}}


def run(world):
    report, kubelet, tranche, api = world.report, world.kubelet, world.tranche, world.control_plane
    report.start("a cluster of one node")
    api.start()
    gpus = tranche.make_gpus(8)
    tranche.configure(sharing("mps", 10))
    kubelet.start(api.kubeconfig)
    tranche.start_mps()
    tranche.start_node()

    def ready():
        conditions = api.node().get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    until("the node to be ready", ready)
    # What the scheduler refuses on a node that has just come.
    until("the node to be free of taints", lambda: not api.node().get("spec", {}).get("taints"))

    def amounts(wanted, seconds=120):
        until(f"capacity and allocatable {wanted}", lambda: api.amounts() == wanted, seconds)
        return True

    report.check("capacity and allocatable: 8 GPUs x 10 slots", amounts((80, 80)), api.amounts())

    api.create(APPS, deployment("twenty", 5, pod("twenty", {GPU: 10}, cuda("--allocate", "1G", "--kernel-ms", "1", "--hold", "--report-every", "1"))))
    until("five pods of ten slots to run", lambda: len([p for p in api.pods() if p["status"].get("phase") == "Running"]) == 5)
    api.create(APPS, deployment("rest", 8, pod("rest", {GPU: 5}, cuda("--allocate", "1G", "--hold", "--report-every", "1"))))

    def phases():
        return sorted(p["status"].get("phase") for p in api.pods() if not p["metadata"].get("deletionTimestamp"))

    until("80 slots to be taken", lambda: phases() == ["Pending"] * 2 + ["Running"] * 11)
    waiting = [p for p in api.pods() if p["status"].get("phase") == "Pending"]
    why = waiting[0]["status"]["conditions"][0].get("message", "")
    report.check("5 pods of 10 slots and 8 of 5: 80 of 90 run, two wait, and the scheduler says for what", "Insufficient nvidia.com/gpu" in why, why[:80])
    for each in waiting:
        report.check("a pod that waits asks for five", each["metadata"]["name"].startswith("rest"), each["metadata"]["name"])

    running = [p for p in api.pods() if p["status"].get("phase") == "Running"]

    def seen(p):
        return next((e for e in events(kubelet.log(p)) if e.get("event") == "attached"), None)

    attached = {p["metadata"]["name"]: until("a client to attach", lambda p=p: seen(p)) for p in running}
    per_gpu = {}
    for name, event in attached.items():
        per_gpu[event["gpu"]] = per_gpu.get(event["gpu"], 0) + (10 if name.startswith("twenty") else 5)
    report.check("no GPU holds more than its ten slots", per_gpu and max(per_gpu.values()) <= 10 and set(per_gpu) <= set(gpus), sorted(per_gpu.values()))
    by_size = {size: {e["sms"] for name, e in attached.items() if name.startswith(size)} for size in ("twenty", "rest")}
    report.check("clients see the SMs of their slots", by_size["twenty"] == {132} and len(by_size["rest"]) == 1 and by_size["rest"] < {64, 66, 68, 70, 72}, by_size)

    api.call("PATCH", f"{APPS}/rest/scale", {"spec": {"replicas": 5}})
    until("the waiting and one more to be gone", lambda: len([p for p in api.pods("app=rest")]) == 5)

    def containers():
        return sorted((p["metadata"]["name"], s["containerID"], s["restartCount"]) for p in api.pods() for s in p["status"].get("containerStatuses", [])
                      if p["metadata"]["name"] in names)

    names = {p["metadata"]["name"] for p in api.pods()}
    before = until("10 containers", lambda: len(c := containers()) == 10 and c)

    def undisturbed(what):
        reports = {p["metadata"]["name"]: len(events(kubelet.log(p))) for p in api.pods() if p["metadata"]["name"] in names}
        grows = until("every client to go on", lambda: all(
            len(events(kubelet.log(p))) > reports[p["metadata"]["name"]] for p in api.pods() if p["metadata"]["name"] in reports))
        errors = [e for p in api.pods() if p["metadata"]["name"] in names for e in events(kubelet.log(p))
                  if e.get("error", "CUDA_SUCCESS") != "CUDA_SUCCESS"]
        report.check(f"{what}: ten running containers are the same, every client goes on without an error", containers() == before and grows and not errors, errors[:1])

    def new_pod(what, name):
        api.add(pod(name, {GPU: 2}))
        api.until_phase(name, "Running")
        found = api.pod(name)
        said = until("the pod to print", lambda: (t := PodOutput(kubelet.log(found))).complete and t)
        report.check(f"{what}: a new pod is scheduled and served", said.env.get("NVIDIA_VISIBLE_DEVICES") in gpus)
        api.remove(name)

    new_pod("as it is", "new-1")
    kubelet.stop()
    kubelet.start()
    until("the node to be ready", ready)
    amounts((80, 80))
    undisturbed("kubelet restarted")
    new_pod("kubelet restarted", "new-2")

    tranche.node.stop()
    until("kubelet to see its end", lambda: api.amounts()[1] == 0)
    report.check("agent stopped: capacity stays, allocatable is 0", api.amounts() == (80, 0), api.amounts())
    tranche.start_node()
    report.check("agent started: allocatable is back", amounts((80, 80)))
    undisturbed("agent restarted")
    new_pod("agent restarted", "new-3")

    tranche.sim_node("gpu", "7", "lost")
    report.check("a GPU is lost: allocatable falls by its ten slots", amounts((80, 70)), api.amounts())
    tranche.sim_node("gpu", "7", "back")
    report.check("the GPU is back: allocatable too, without a restart", amounts((80, 80), 90), api.amounts())

    for name in ("twenty", "rest"):
        api.call("DELETE", f"{APPS}/{name}?propagationPolicy=Foreground")
    until("pods to be gone", lambda: not api.pods())
    tranche.stop()
    kubelet.stop()
    api.stop()
