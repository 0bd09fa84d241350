"""A whole cluster of one node: capacity, scheduling, restarts of everyone under running pods, a GPU that fails and recovers."""

from lib.pods import CLIENT, PodOutput, pod
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
    gpus = world.share(sharing("mps", 10), 8)

    def amounts(wanted, seconds=120):
        until(f"capacity and allocatable {wanted}", lambda: api.amounts() == wanted, seconds)
        return True

    report.check("capacity and allocatable: 8 GPUs x 10 slots", amounts((80, 80)), api.amounts())

    api.create(APPS, deployment("twenty", 5, pod("twenty", {GPU: 10}, CLIENT)))
    until("five pods of ten slots to run", lambda: len([p for p in api.pods() if p["status"].get("phase") == "Running"]) == 5)
    api.create(APPS, deployment("rest", 8, pod("rest", {GPU: 5}, CLIENT)))

    def phases():
        return sorted(p["status"].get("phase") for p in api.pods() if not p["metadata"].get("deletionTimestamp"))

    until("80 slots to be taken", lambda: phases() == ["Pending"] * 2 + ["Running"] * 11)
    waiting = [p for p in api.pods() if p["status"].get("phase") == "Pending"]
    why = waiting[0]["status"]["conditions"][0].get("message", "")
    report.check("5 pods of 10 slots and 8 of 5: 80 of 90 run, two wait, and the scheduler says for what", "Insufficient nvidia.com/gpu" in why, why[:80])
    for each in waiting:
        report.check("a pod that waits asks for five", each["metadata"]["name"].startswith("rest"), each["metadata"]["name"])

    attached = {p["metadata"]["name"]: world.attached(p["metadata"]["name"]) for p in api.pods() if p["status"].get("phase") == "Running"}
    per_gpu = {}
    for name, event in attached.items():
        per_gpu[event["gpu"]] = per_gpu.get(event["gpu"], 0) + (10 if name.startswith("twenty") else 5)
    report.check("no GPU holds more than its ten slots", per_gpu and max(per_gpu.values()) <= 10 and set(per_gpu) <= set(gpus), sorted(per_gpu.values()))
    by_size = {size: {e["sms"] for name, e in attached.items() if name.startswith(size)} for size in ("twenty", "rest")}
    report.check("clients see the SMs of their slots", by_size["twenty"] == {132} and len(by_size["rest"]) == 1 and by_size["rest"] < {64, 66, 68, 70, 72}, by_size)

    api.call("PATCH", f"{APPS}/rest/scale", {"spec": {"replicas": 5}})
    until("the waiting and one more to be gone", lambda: len([p for p in api.pods("app=rest")]) == 5)

    names = [p["metadata"]["name"] for p in api.pods()]

    def undisturbed(what):
        world.go_on(f"{what}: ten containers are the same, every client goes on without an error", *names)

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
    until("the node to be ready", api.ready)
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
