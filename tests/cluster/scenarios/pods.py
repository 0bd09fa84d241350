"""The node agent and a real API server: a deletion is seen before kubelet's first signal, events appear, and the role in
deploy/rbac/node.yaml is all it needs, over TLS with the cluster's own authority and a service account's token."""

import datetime
import json
import time

from lib.machine import NODE
from lib.own_node import account, kubeconfig, token_of
from lib.pods import cuda, pod
from lib.programs import run as run_program
from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"


def log_times(path, event):
    """When the agent's log says the event, and the line's fields."""
    found = []
    with open(path, errors="replace") as log:
        for line in log:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("event") == event:
                stamp = datetime.datetime.fromisoformat(entry["time"].replace("Z", "+00:00"))
                found.append((stamp.timestamp(), entry))
    return found


def run(world):
    report, tranche, api = world.report, world.tranche, world.control_plane
    report.start("the node agent and the API server")
    world.start_cluster()
    gpus = tranche.make_gpus(2)
    tranche.configure(sharing("mps", 10))
    account(api)
    token = token_of(api)
    tranche.start_mps()
    here = [f"{tranche.build}/bin/tranche", "node", "--config-file", "/etc/kubernetes/tranche.yaml", "--log-format", "json"]

    path = world.machine.path
    run_program("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=somebody-else", "-days", "2",
                "-keyout", path("other.key"), "-out", path("other.crt"))
    tranche.start_node([*here, "--kubeconfig", kubeconfig(world, token, "other.crt")], env={"NODE_NAME": NODE})
    refused = until("the agent to refuse the server", lambda: (s := tranche.status().get("kubernetes", {})).get("state") == "waiting" and s)
    seen = api.call("GET", "/api/v1/namespaces/default")[0]
    report.check("a server whose certificate another authority signed gets no token: waiting, with the reason", seen == 200 and "certificate" in refused["reason"].lower(), refused["reason"][:90])
    tranche.node.stop()

    tranche.start_node([*here, "--kubeconfig", kubeconfig(world, token)], env={"NODE_NAME": NODE})
    tranche.until_serves(20)
    watching = until("the agent to watch", lambda: (s := tranche.status().get("kubernetes", {})).get("state") == "watching" and s)
    report.check("with the role, a service account's token and the cluster's authority: watching over TLS", watching["server"] == "https://127.0.0.1:6443", watching["state"])

    may = {f"{verb} {what}": api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {
        "user": "system:serviceaccount:tranche:tranche-node", "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {"verb": verb, "resource": what}}})["status"]["allowed"]
        for verb in ("get", "list", "watch", "create", "patch", "update", "delete") for what in ("pods", "events", "secrets", "nodes")}
    allowed = sorted(key for key, yes in may.items() if yes)
    report.check("the role allows that and nothing else", allowed == ["create events", "get pods", "list pods", "patch events", "watch pods"], allowed)

    def grants():
        return {g["pod"]: g for g in tranche.status().get("grants", [])}

    times = []
    for number in range(5):
        name = f"tenant-{number}"
        api.add(pod(name, {GPU: 2}, cuda("--allocate", "1G", "--hold", "--report-every", "1")))
        found = api.until_phase(name, "Running")
        grant = until("the grant to have its pod's uid", lambda n=name: (g := grants().get(n)) and g.get("containerId") and g)
        if number == 0:
            report.check("a grant has the uid and container id that the cluster knows",
                         grant["podUid"] == found["metadata"]["uid"]
                         and grant["containerId"] == api.pod(name)["status"]["containerStatuses"][0]["containerID"], grant["containerId"][:30])
        asked = time.time()
        api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 2})
        line = until("the agent to say that the pod is deleted",
                     lambda n=name: [t for t, e in log_times(tranche.node.log, "pod.deleting") if e["pod"] == f"default/{n}"])
        times.append((line[0] - asked) * 1000)
        until(f"pod {name} to be gone", lambda n=name: api.pod(n) is None)
        until("its grant to be gone from the status of the agent", lambda n=name: n not in grants())
    report.check("deletions are seen, and slots are free after them: from DELETE being sent to on_pods", True, ", ".join(f"{t:.0f} ms" for t in times))

    def event(reason, kind, name):
        status, listed = api.call("GET", "/api/v1/events")
        return next((e for e in (listed["items"] if status == 200 else []) if e["reason"] == reason and e["involvedObject"]["kind"] == kind
                     and e["involvedObject"]["name"] == name), None)

    tranche.sim_node("gpu", "1", "lost")
    found = until("the event on the node", lambda: event("GpuUnhealthy", "Node", NODE))
    report.check("an event on the node says which GPU and why", gpus[1] in found["message"] and found["reportingComponent"] == "tranche.io/node", found["message"][:80])
    tranche.sim_node("gpu", "1", "back")
    report.check("and that it is back", until("the event", lambda: event("GpuHealthy", "Node", NODE))["type"] == "Normal")

    tranche.configure("version: v1\nsharing: [\n")
    refused = until("the event", lambda: event("ConfigRefused", "Node", NODE))
    report.check("a configuration that cannot be used is an event with its line", "tranche.yaml:" in refused["message"], refused["message"][-80:])

    before = tranche.status()["kubernetes"]
    time.sleep(20)
    after = tranche.status()["kubernetes"]
    report.check("20 quiet seconds: no watch is opened again", before["watchRestarts"] == after["watchRestarts"], after["watchRestarts"])

    report.check("the agent stops with its watch open", tranche.node.stop() == 0)
    secrets = [line for line in open(tranche.node.log, errors="replace") if token[:40] in line]
    report.check("the token is in no line of its log", not secrets)

