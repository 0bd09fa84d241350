"""The mission's rows as a person plays them: kubectl, Helm and this repository's scripts and manifests on a node whose GPUs are simulated as
deploy/kind makes them, at /opt/tranche-sim. Pods have a network of their own."""

import json
import os

from .helm import Helm
from .installation import SOURCE, Node, begin
from .kubectl import Shell, find
from .machine import ADDRESS, NODE
from .pods import TOOLS
from .programs import run, write
from .report import until

KIND = f"{SOURCE}/deploy/kind"
SIM = "/opt/tranche-sim"
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
LABEL = "nvidia.com/device-plugin.config"
# Four shares of each GPU, under a name of their own.
FOUR = {"default": "mps-four", "map": {
    "mps-four": "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"}}
AGENT = ("exec", "-n", "tranche", "ds/tranche-node", "--", "tranche")


def programs(world):
    """Helm and kubectl, or None after a row that says so."""
    found = {name: find(name, world.binaries, world.build) for name in ("helm", "kubectl")}
    if all(found.values()):
        return found
    print("SKIPPED: there is no Helm or no kubectl; build-programs makes them with Go", flush=True)
    world.report.check("skipped without Helm and kubectl", True)
    return None


def simulate(node, profile, gpus, seed="tranche-1"):
    """What setup.sh --without-gpu does in a worker."""
    os.makedirs(node.machine.path("opt/tranche-sim"), exist_ok=True)
    if not os.path.ismount("/opt"):
        run("mount", "--bind", node.machine.path("opt"), "/opt")
    made = run(f"{KIND}/simulated-node", SIM, "--gpus", gpus, "--profile", profile, "--seed", seed, env={**os.environ, "TRANCHE_STANDINS": f"{node.build}/standins"})
    with open(f"{KIND}/simulated-devices") as script:
        run("bash", "-s", "--", str(gpus), stdin=script)
    return made


class Mission:
    def __init__(self, world, found, profile="H200", gpus=2):
        self.world, self.report, self.api, self.machine = world, world.report, world.control_plane, world.machine
        simulate(world, profile, gpus)
        self.image = begin(world)
        self.before = Node(world)  # as it was found
        # A person gives `-f values`; what the simulation and this cluster without kube-proxy need comes behind it, whoever calls Helm.
        server = self.machine.path("server.json")
        write(server, json.dumps({"devicePlugin": {"extraEnv": [{"name": "TRANCHE_SIM_NODE", "value": f"{SIM}/node"}, {"name": "KUBERNETES_SERVICE_HOST", "value": ADDRESS},
                                                                {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}]}, "log": {"format": "text"}}))
        with open(f"{KIND}/values-without-gpu.yaml") as values:
            write(self.machine.path("simulated.yaml"), values.read().partition("config:\n")[0])
        wrapper = self.machine.path("helm-here")
        write(wrapper, f'#!/bin/sh\ncase $1 in install|upgrade) exec {found["helm"]} "$@" -f {self.machine.path("simulated.yaml")} -f {server} ;; *) exec {found["helm"]} "$@" ;; esac\n', 0o755)
        self.shell = Shell(self.machine, self.api.kubeconfig, kubectl=found["kubectl"], helm=wrapper)
        self.kubectl = self.shell.kubectl
        self.helm = Helm(self.shell)

    # --- what a person does ---------------------------------------------------------------------------------------------
    def install(self, **values):
        self.helm("install", "--wait", "--timeout", "120s", values=values)
        self.kubectl("-n", "tranche", "wait", "--for=condition=Ready", "pod", "-l", "app.kubernetes.io/name=tranche", "--timeout=120s")

    def apply(self, *documents):
        return self.kubectl("apply", "-f", "-", input="\n---\n".join(d if isinstance(d, str) else json.dumps(d) for d in documents))

    def choose(self, name, slots):
        """The node labelled, and the resources that come of it, by name."""
        self.kubectl("label", "node", NODE, f"{LABEL}={name}" if name else f"{LABEL}-", "--overwrite")
        self.amounts(slots)

    def config_map(self, name, configs):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "tranche"}, "data": configs}

    def remove(self, *words):
        self.kubectl("delete", *words, "--wait=true", "--timeout=60s", "--ignore-not-found")

    def start_workload(self):
        """The samples that deploy/kind/without-gpu starts: five probes and two loads."""
        self.kubectl("apply", "-k", f"{KIND}/without-gpu")
        for name in ("tranche-probe", "tranche-products"):
            self.kubectl("rollout", "status", f"deployment/{name}", "--timeout=90s")

    def end_workload(self):
        self.remove("-k", f"{KIND}/without-gpu")
        self.kubectl("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name in (tranche-probe, tranche-products)", "--timeout=60s")

    # --- what a person sees ---------------------------------------------------------------------------------------------
    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json").stdout)

    def labels(self):
        return {key: value for key, value in self.api.node()["metadata"]["labels"].items() if key.startswith(("nvidia.com/", "tranche.io/"))}

    def has(self, wanted):
        """Whether capacity and allocatable are as wanted, by resource."""
        return all(self.api.amounts(name) == (count, count) for name, count in wanted.items())

    def amounts(self, wanted):
        until(f"{wanted}", lambda: self.has(wanted))

    def check_amounts(self, what, wanted, seconds=120):
        self.report.comes(what, lambda: self.has(wanted), lambda: {name: self.api.amounts(name) for name in wanted}, seconds)

    def label_is(self, wanted):
        """The node's labels, once these are among them."""
        return until(f"labels {wanted}", lambda: (got := self.labels()) and wanted.items() <= got.items() and got)

    def status(self):
        return json.loads(self.kubectl(*AGENT, "status", "--json").stdout)

    def serves(self, seconds=120):
        """Both programs follow the same configuration, and every pool serves."""
        def both():
            node = self.world.tranche.status()
            mps = self.world.tranche.status("/run/nvidia/mps/mps.sock")
            return (node.get("config", {}).get("hash") and node["config"]["hash"] == mps.get("config", {}).get("hash") and not node.get("change", {}).get("waitingFor")
                    and all(pool["state"] == "serving" for pool in mps.get("pools", [])))
        until("both programs to serve the configuration", both, seconds)

    def log(self, name):
        return self.kubectl("logs", name, "--tail=-1", check=False).stdout

    def probe(self, name, limits, *words, wait="Succeeded"):
        """`tranche probe --json` in a pod of deploy/samples' kind; its report."""
        self.apply(tenant(name, limits, ["tranche", "probe", "--json", *words]))
        if wait:
            self.kubectl("wait", f"pod/{name}", f"--for=jsonpath={{.status.phase}}={wait}", "--timeout=60s")
        text = until(f"{name} to print", lambda: self.log(name))
        return json.loads(text.splitlines()[0])

    def events(self, name):
        return " | ".join(e["message"] for e in self.get("events", "--field-selector", f"involvedObject.name={name}")["items"])


def play(world, title, profile, gpus, *acts):
    """A scenario: `acts`, one after the other, on a node with GPUs of this profile."""
    world.report.start(title)
    found = programs(world)
    if not found:
        return
    m = Mission(world, found, profile, gpus)
    for act in acts:
        act(m)


def tenant(name, limits, command, image="tranche.io/tranche:v0.1.0", **metadata):
    """deploy/samples/probe.yaml's pod with what deploy/kind/without-gpu adds."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": {
        "hostPID": True, "automountServiceAccountToken": False, "enableServiceLinks": False, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "runAsGroup": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": command,
                        "env": [{"name": "TRANCHE_SIM_NODE", "value": f"{SIM}/node"}, {"name": "LD_LIBRARY_PATH", "value": f"{SIM}/libraries"}],
                        "resources": {"limits": {key: str(value) for key, value in limits.items()}},
                        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
                        "volumeMounts": [{"name": "simulated", "mountPath": SIM}]}],
        "volumes": [{"name": "simulated", "hostPath": {"path": SIM, "type": "Directory"}}]}}


def tools(name, limits, script):
    """The same with a shell."""
    return tenant(name, limits, ["/bin/sh", "-c", script], image=TOOLS)
