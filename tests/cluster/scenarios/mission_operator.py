"""Rows M2 of the mission: NVIDIA's guide to MPS under its operator, with kubectl, on two Tesla T4 (15,360 MiB)."""

import re

from lib.machine import NODE
from lib.mission import AGENT, GPU, KIND, LABEL, SHARED, SIM, play
from lib.report import until

TOTAL = 15360


def mps(replicas, more="", rename=False):
    return (f"version: v1\nsharing:\n  mps:\n{'    renameByDefault: true' + chr(10) if rename else ''}{more}    resources:\n    - name: nvidia.com/gpu\n      replicas: {replicas}\n")


ALL = {"mps-two": mps(2), "mps-four": mps(4), "renamed": mps(4, rename=True), "one-each": mps(4, "    failRequestsGreaterThanOne: true\n"),
       "several": mps(4, "    failRequestsGreaterThanOne: false\n")}


def before_installing(m):
    report = m.report
    m.apply(m.config_map("plugin-config-any", {"mps-any": mps(4)}))
    m.install(config={"name": "plugin-config-any", "default": "mps-any"})
    m.check_amounts("M2.4 configured before installing, by Helm's values: the configuration is in force", {GPU: 8})
    report.check("M2.1 a cluster-wide default: a node without a label has it", LABEL not in m.labels() and m.status()["config"]["chosenBy"] == "default", m.status()["config"]["name"])
    m.apply(m.config_map("plugin-config-fine", ALL))
    m.helm("upgrade", "--wait", "--timeout", "120s", values={"config": {"name": "plugin-config-fine", "fallbackStrategies": ["empty"]}})
    m.kubectl("-n", "tranche", "rollout", "status", "daemonset/tranche-node", "--timeout=120s")
    m.check_amounts("M2.3 no default: a node without a label stays as it is", {GPU: 2}, 90)


def by_label(m):
    m.kubectl("label", "node", NODE, f"{LABEL}=mps-two", "--overwrite")
    m.check_amounts("M2.2 kubectl label node NAME …=mps-two", {GPU: 4})
    seen = m.label_is({"nvidia.com/gpu.product": "Tesla-T4-SHARED"})
    said = m.kubectl("label", "node", "--selector=nvidia.com/gpu.product=Tesla-T4-SHARED", f"{LABEL}=mps-four", "--overwrite").stdout
    m.check_amounts("M2.2 kubectl label node --selector=nvidia.com/gpu.product=… …=mps-four", {GPU: 8})
    wanted = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true",
              "nvidia.com/gpu.memory": str(TOTAL), LABEL: "mps-four"}
    seen = m.label_is(wanted)
    m.report.check("M2.6 labels: gpu.count physical, gpu.product with -SHARED, gpu.replicas, gpu.sharing-strategy, mps.capable", said.count("labeled") == 1, {key: seen[key] for key in wanted})
    m.choose("renamed", {GPU: 0, SHARED: 8})
    seen = m.label_is({"nvidia.com/gpu.product": "Tesla-T4"})
    m.report.check("M2.6 renamed by default: gpu.product without -SHARED", True, seen["nvidia.com/gpu.product"])


def verification(m):
    report = m.report
    m.serves()
    m.kubectl("apply", "-k", f"{KIND}/without-gpu")
    m.remove("deployment", "tranche-products")
    m.kubectl("rollout", "status", "deployment/tranche-probe", "--timeout=90s")
    names = [p["metadata"]["name"] for p in m.get("pods", "-l", "app.kubernetes.io/name=tranche-probe")["items"]]
    logs = {name: until(f"{name} to print", lambda n=name: (text := m.log(n)).count("largest allocation") and text) for name in names}
    limits = sorted({float(found) for text in logs.values() for found in re.findall(r"largest allocation (\d+\.\d+) GiB", text)})
    report.check("M2.8 five replicas of the verification workload run; their logs say that the GPU computed right, and how much memory each may have",
                 len(names) == 5 and all("answers      right" in text for text in logs.values()) and limits and 3.5 < limits[0] and limits[-1] <= TOTAL / 4096, limits)
    asks = [f"{SIM}/driver/usr/bin/nvidia-cuda-mps-control"]
    answers = {}
    for command in ("get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0", "set_default_active_thread_percentage 100", "quit"):
        done = m.kubectl("exec", "-i", names[0], "--", *asks, input=f"{command}\n", check=False)
        answers[command] = done.stdout.strip()
    report.check("M2.8 from inside a pod: get_default_active_thread_percentage is 25.0, get_default_device_pinned_mem_limit is 3G",
                 [answers["get_default_active_thread_percentage"], answers["get_default_device_pinned_mem_limit 0"]] == ["25.0", "3G"], answers)
    return names


def edit(m, names):
    report = m.report
    started = {name: m.get("pod", name)["status"]["containerStatuses"][0]["containerID"] for name in names}
    m.kubectl("-n", "tranche", "edit", "configmap", "plugin-config-fine", env={"KUBE_EDITOR": "sed -i 's/replicas: 4/replicas: 6/'"})
    until("the edit to be in force", lambda: m.api.amounts(SHARED)[0] == 12 if m.api.amounts(SHARED)[0] else False)
    agents = m.get("pods", "-n", "tranche")["items"]
    report.check("M2.5 kubectl edit configmap: applied by itself, no pod of ours was restarted", not any(s["restartCount"] for p in agents for s in p["status"]["containerStatuses"]), m.api.amounts(SHARED))
    now = {name: m.get("pod", name)["status"]["containerStatuses"][0]["containerID"] for name in names}
    status = m.kubectl(*AGENT, "status", "--json").stdout
    report.check("M2.5 running pods are undisturbed: the same containers, and each still holds its slot", started == now and all(name in status for name in names),
                 [started == now, [name for name in names if name not in status], now == started])
    m.kubectl("-n", "tranche", "edit", "configmap", "plugin-config-fine", env={"KUBE_EDITOR": "sed -i 's/replicas: 6/replicas: 4/'"})
    m.remove("deployment", "tranche-probe")
    m.kubectl("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=tranche-probe", "--timeout=60s")


def several(m):
    m.choose("one-each", {GPU: 8})
    m.serves()
    m.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "two"}, "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [
        {"name": "main", "image": "tranche.io/tranche:v0.1.0", "command": ["tranche", "version"], "resources": {"limits": {GPU: "2"}}}]}})
    m.kubectl("wait", "pod/two", "--for=jsonpath={.status.phase}=Failed", "--timeout=60s")
    why = m.get("pod", "two")["status"].get("message", "")
    m.report.check("M2.7 failRequestsGreaterThanOne: true: a pod that asks two is refused, with the reason", "failRequestsGreaterThanOne" in why or "more than one" in why or "at most 1" in why, why)
    m.remove("pod", "two")
    m.choose("several", {GPU: 8})
    m.serves()
    output = m.probe("pair", {GPU: 2}, "--find-limit")
    m.report.check("M2.7 false: a pod that asks two has twice the memory and the SMs", output["memory"]["largestAllocation"] > (TOTAL // 4) << 20 and output["sms"]["attribute"] == 20, [output["memory"], output["sms"]])
    m.remove("pod", "pair")


def run(world):
    play(world, "M2: NVIDIA's guide to MPS under the operator", "T4", 2, before_installing, by_label, lambda m: edit(m, verification(m)), several)
