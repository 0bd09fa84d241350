"""What `deploy/kind/setup.sh --without-gpu` does in a worker of kind, on the node of the test, with the same files: simulated GPUs at
/opt/tranche-sim, device nodes, the chart's values, the samples. Pods have a network of their own, as there."""

import json
import os
import re

from lib.control_plane import SERVER, TOKEN
from lib.machine import NODE
from lib.mission import AGENT, KIND, SHARED, SIM, play, simulate
from lib.programs import write
from lib.report import until


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


def worker(m):
    report = m.report
    again = simulate(m.world, "H200", 2)
    report.check("simulated GPUs are made, and made again without a change",
                 not again.stderr and os.path.exists("/dev/nvidia1") and not os.path.exists("/dev/nvidia2"), again.stderr)
    m.helm("install", "-f", f"{KIND}/values-without-gpu.yaml", "--wait", "--timeout", "120s")
    m.kubectl("-n", "tranche", "rollout", "status", "daemonset/tranche-node", "--timeout=120s")
    m.kubectl("-n", "tranche", "wait", "--for=condition=Ready", "pod", "-l", "app.kubernetes.io/component=mps", "--timeout=120s")
    pods = m.get("pods", "-n", "tranche")["items"]
    ready = [[p["status"]["containerStatuses"][0]["ready"], "hostNetwork" in p["spec"]] for p in pods]
    report.check("M1.1 setup.sh's steps end with both programs ready, in pods with a network of their own",
                 ready == [[True, False]] * 2, ready)
    m.amounts({SHARED: 8})
    columns = m.kubectl("get", "nodes", "-o", r"custom-columns=NODE:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu,"
                        r"SHARED:.status.allocatable.nvidia\.com/gpu\.shared").stdout
    report.check("M1.4 what setup.sh prints: no nvidia.com/gpu, eight nvidia.com/gpu.shared", columns.split()[-3:] == [NODE, "0", "8"], columns.split()[-3:])

    m.start_workload()

    def output(name, mark, count):
        def printed():
            text = m.kubectl("logs", "-l", f"app.kubernetes.io/name={name}", "--tail=-1", "--prefix").stdout
            return text.count(mark) == count and text
        return until(f"{count} pods of {name} to print", printed)

    probes = output("tranche-probe", "largest allocation", 5)
    report.check("M2.8 five replicas of deploy/samples/probe.yaml run without privileges; their logs say what each got", "wrong" not in probes.replace("0 wrong", ""), [line for line in probes.splitlines() if "probe-" in line][:8])
    products = output("tranche-products", "on tensor cores", 2)
    report.check("M4.5 deploy/samples/products.yaml computes on tensor cores in two pods", "WRONG" not in products, products.splitlines()[-3:])
    status = m.kubectl(*AGENT, "status", "--json").stdout
    names = set(re.findall(r"tranche-(?:probe|products)-[a-z0-9]+-[a-z0-9]+", status))
    report.check("tranche status in the agent's pod names all seven", len(names) == 7, sorted(names))
    os.symlink(f"{m.world.build}/bin/tranche", m.machine.path("bin/kubectl-tranche"))
    files, asked = on_a_laptop(m.machine, SERVER, TOKEN)
    seen = {words[0]: m.kubectl("tranche", *words, "--context", "here", env={"KUBECONFIG": files}, check=False)
            for words in (("top", "--once"), ("why", sorted(names)[0]), ("status", "--node", NODE), ("verify", NODE), ("web", "--json"))}
    asked_for = open(asked).read().count("ExecCredential") if os.path.exists(asked) else 0
    report.check("kubectl tranche top, why, status, verify and web with a list of kubeconfigs, a context and a credential program",
                 asked_for == 5 and all(("a slot is" if name == "status" else NODE) in done.stdout for name, done in seen.items()) and sum(name in seen["top"].stdout for name in names) == 7,
                 (asked_for, {name: (done.returncode, (done.stderr or done.stdout)[-200:]) for name, done in seen.items()}))
    doctor = json.loads(m.kubectl(*AGENT, "check", "--json", check=False).stdout or "{}")
    findings = {f["id"]: f for f in doctor.get("checks", [])}
    report.check("tranche check in the agent's pod finds the driver under its root, and takes our own sockets for ours",
                 findings.get("driver.library", {}).get("verdict") == "PASS" and findings.get("mps.programs", {}).get("verdict") == "PASS" and "kubelet.others" not in findings,
                 [(f["verdict"], f["id"], f["what"][:80]) for f in findings.values() if f["verdict"] not in ("PASS", "NOTE")])
    m.shell(f"{SIM}/sim-node", "gpu", "1", "lost")
    until("the lost GPU's slots to be gone", lambda: m.api.amounts(SHARED)[1] == 4)
    m.shell(f"{SIM}/sim-node", "gpu", "1", "back")
    m.check_amounts("a GPU that is lost (sim-node gpu 1 lost) takes its slots, and back it brings them back", {SHARED: 8})


def run(world):
    play(world, "a worker without GPUs", "H200", 2, worker)
