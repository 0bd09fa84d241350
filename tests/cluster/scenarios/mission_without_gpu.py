"""What `deploy/kind/setup.sh --without-gpu` does in a worker of kind, on the node of the test, with the same files: simulated GPUs at
/opt/tranche-sim, device nodes, the chart's values, the samples. Pods have a network of their own, as there."""

import json
import os
import re

from lib.control_plane import SERVER as SERVER_ADDRESS
from lib.control_plane import TOKEN
from lib.helm import CHART, find
from lib.installation import begin
from lib.kubectl import Shell
from lib.kubectl import find as find_kubectl
from lib.machine import ADDRESS, NODE
from lib.mission import KIND, simulate
from lib.programs import write
from lib.report import until

SHARED = "nvidia.com/gpu.shared"
# kube-proxy's part, which kind has and this cluster has not.
SERVER = {"devicePlugin": [{"name": "KUBERNETES_SERVICE_HOST", "value": ADDRESS}, {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}]}


def values(machine):
    """The file of the repository, and beside it the way to the API server: extraEnv is a list, which Helm replaces as a whole."""
    path = machine.path("server.json")
    write(path, json.dumps({"devicePlugin": {"extraEnv": [{"name": "TRANCHE_SIM_NODE", "value": "/opt/tranche-sim/node"}, *SERVER["devicePlugin"]]}}))
    return ["-f", f"{KIND}/values-without-gpu.yaml", "-f", path]


def on_a_laptop(machine, server, token):
    """Two files, as `KUBECONFIG` has them: the current context is another cluster's, and the user has a credential program."""
    home = machine.path("laptop")
    write(f"{home}/get-token", f"""#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >> {home}/asked
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}", "expirationTimestamp": "2099-01-01T00:00:00Z"}}}}'
""", 0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./get-token", "interactiveMode": "Never"}}
    write(f"{home}/first", json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "elsewhere",
        "contexts": [{"name": "elsewhere", "context": {"cluster": "elsewhere", "user": "cloud"}}, {"name": "here", "context": {"cluster": "here", "user": "cloud"}}],
        "clusters": [{"name": "elsewhere", "cluster": {"server": "https://192.0.2.1:6443"}}], "users": [{"name": "cloud", "user": user}]}))
    write(f"{home}/second", json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "here", "cluster": {"server": server, "insecure-skip-tls-verify": True}}]}))
    return f"{home}/first:{home}/absent:{home}/second", f"{home}/asked"


def run(world):
    report, machine, api = world.report, world.machine, world.control_plane
    report.start("a worker without GPUs")
    helm, kubectl = find(world.binaries, world.build), find_kubectl(world.binaries, world.build)
    if not helm or not kubectl:
        print("SKIPPED: there is no Helm or no kubectl; build-programs makes them with Go", flush=True)
        report.check("without GPUs: skipped without Helm and kubectl", True)
        return
    made = [simulate(world, "H200", 2), simulate(world, "H200", 2)]
    report.check("simulated GPUs are made, and made again without a change", not any(done.stderr for done in made) and os.path.exists("/dev/nvidia1") and not os.path.exists("/dev/nvidia2"))
    begin(world)
    shell = Shell(machine, api.kubeconfig, kubectl=kubectl, helm=helm, **{"kubectl-tranche": f"{world.build}/bin/tranche"})
    shell("helm", "upgrade", "--install", "tranche", CHART, "-n", "tranche", *values(machine), "--wait", "--timeout", "120s", timeout=150)
    shell.kubectl("-n", "tranche", "rollout", "status", "daemonset/tranche-node", "--timeout=120s")
    shell.kubectl("-n", "tranche", "wait", "--for=condition=Ready", "pod", "-l", "app.kubernetes.io/component=mps", "--timeout=120s")
    ready = shell.kubectl("-n", "tranche", "get", "pods", "-o", "jsonpath={range .items[*]}{.status.containerStatuses[0].ready} {.spec.hostNetwork} {end}").stdout.split()
    report.check("M1.1 setup.sh's steps end with both programs ready, in pods with a network of their own", ready == ["true", "true"], ready)
    until("eight slots", lambda: api.amounts(SHARED) == (8, 8))
    columns = shell.kubectl("get", "nodes", "-o", r"custom-columns=NODE:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu,SHARED:.status.allocatable.nvidia\.com/gpu\.shared").stdout
    report.check("M1.4 what setup.sh prints: no nvidia.com/gpu, eight nvidia.com/gpu.shared", columns.split()[-3:] == [NODE, "0", "8"], columns.split()[-3:])

    shell.kubectl("apply", "-k", f"{KIND}/without-gpu")
    shell.kubectl("rollout", "status", "deployment/tranche-probe", "--timeout=90s")
    shell.kubectl("rollout", "status", "deployment/tranche-products", "--timeout=90s")

    def logs(name):
        return shell.kubectl("logs", "-l", f"app.kubernetes.io/name={name}", "--tail=-1", "--prefix").stdout

    def output(name, mark, count):
        return until(f"{count} pods of {name} to print", lambda: (text := logs(name)).count(mark) == count and text)

    probes = output("tranche-probe", "largest allocation", 5)
    report.check("M2.8 five replicas of deploy/samples/probe.yaml run without privileges; their logs say what each got", "wrong" not in probes.replace("0 wrong", ""), [line for line in probes.splitlines() if "probe-" in line][:8])
    products = until("both loads to print", lambda: (text := logs("tranche-products")).count("on tensor cores") == 2 and text)
    report.check("M4.5 deploy/samples/products.yaml computes on tensor cores in two pods", "WRONG" not in products, products.splitlines()[-3:])
    status = shell.kubectl("-n", "tranche", "exec", "ds/tranche-node", "--", "tranche", "status", "--json").stdout
    names = set(re.findall(r"tranche-(?:probe|products)-[a-z0-9]+-[a-z0-9]+", status))
    report.check("tranche status in the agent's pod names all seven", len(names) == 7, sorted(names))
    files, asked = on_a_laptop(machine, SERVER_ADDRESS, TOKEN)
    seen = {words[0]: shell.kubectl("tranche", *words, "--context", "here", env={"KUBECONFIG": files}, check=False)
            for words in (("top", "--once"), ("why", sorted(names)[0]), ("status", "--node", NODE), ("verify", NODE), ("web", "--json"))}
    asked_for = open(asked).read().count("ExecCredential") if os.path.exists(asked) else 0
    report.check("kubectl tranche top, why, status, verify and web with a list of kubeconfigs, a context and a credential program",
                 asked_for == 5 and all(("a slot is" if name == "status" else NODE) in done.stdout for name, done in seen.items()) and sum(name in seen["top"].stdout for name in names) == 7,
                 (asked_for, {name: (done.returncode, (done.stderr or done.stdout)[-200:]) for name, done in seen.items()}))
    doctor = json.loads(shell.kubectl("-n", "tranche", "exec", "ds/tranche-node", "--", "tranche", "check", "--json", check=False).stdout or "{}")
    findings = {f["id"]: f for f in doctor.get("checks", [])}
    report.check("tranche check in the agent's pod finds the driver under its root, and takes our own sockets for ours",
                 findings.get("driver.library", {}).get("verdict") == "PASS" and findings.get("mps.programs", {}).get("verdict") == "PASS" and "kubelet.others" not in findings,
                 [(f["verdict"], f["id"], f["what"][:80]) for f in findings.values() if f["verdict"] not in ("PASS", "NOTE")])
    lost = shell("/opt/tranche-sim/sim-node", "gpu", "1", "lost", check=False)
    until("the lost GPU's slots to be gone", lambda: api.amounts(SHARED)[1] == 4)
    shell("/opt/tranche-sim/sim-node", "gpu", "1", "back")
    until("them to be back", lambda: api.amounts(SHARED) == (8, 8))
    report.check("a GPU that is lost (sim-node gpu 1 lost) takes its slots, and back it brings them back", lost.returncode == 0)
    world.kubelet.stop()
    api.stop()
