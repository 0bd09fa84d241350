"""`tranche verify NODE --deep` from outside: probe pods of our image, one for each GPU, try every limit beside a tenant, and are gone afterwards.
The node is the one of `deploy/kind/setup.sh --without-gpu`."""

import json
import os

from lib.helm import CHART, find
from lib.installation import begin
from lib.kubectl import Shell
from lib.kubectl import find as find_kubectl
from lib.machine import NODE
from lib.programs import run as run_program
from lib.report import until
from scenarios.mission_without_gpu import KIND, SHARED, values

EACH = ("deep.memory.within", "deep.memory.beyond", "deep.sms", "deep.answers", "deep.sms.variable", "deep.second-process", "deep.other-user", "deep.neighbour")


def run(world):
    report, machine, api = world.report, world.machine, world.control_plane
    report.start("a node verified by pods")
    helm, kubectl = find(world.binaries, world.build), find_kubectl(world.binaries, world.build)
    if not helm or not kubectl:
        print("SKIPPED: there is no Helm or no kubectl; build-programs makes them with Go", flush=True)
        report.check("verify by pods: skipped without Helm and kubectl", True)
        return
    os.makedirs(machine.path("opt/tranche-sim"))
    run_program("mount", "--bind", machine.path("opt"), "/opt")
    run_program(f"{KIND}/simulated-node", "/opt/tranche-sim", "--gpus", "2", env={**os.environ, "TRANCHE_STANDINS": f"{world.build}/standins"})
    run_program("bash", "-s", "--", "2", stdin=open(f"{KIND}/simulated-devices"))  # pylint: disable=consider-using-with
    begin(world)
    shell = Shell(machine, api.kubeconfig, kubectl=kubectl, helm=helm)
    shell("helm", "upgrade", "--install", "tranche", CHART, "-n", "tranche", *values(machine), "--wait", "--timeout", "120s", timeout=150)
    until("eight slots", lambda: api.amounts(SHARED) == (8, 8), 60)
    shell.kubectl("apply", "-k", f"{KIND}/without-gpu")
    shell.kubectl("scale", "deployment/tranche-probe", "--replicas=2")
    shell.kubectl("delete", "deployment/tranche-products")
    shell.kubectl("rollout", "status", "deployment/tranche-probe", "--timeout=90s")
    until("two tenants", lambda: len(api.pods()) == 2, 60)

    def pods():
        return shell.kubectl("get", "pods", "-n", "tranche", "-l", "tranche.io/verify", "-o", "name").stdout.split()

    def verify(*words):
        done = shell(f"{world.build}/bin/tranche", "verify", NODE, "--deep", "--json", *words, check=False, timeout=240)
        return done, json.loads(done.stdout or "{}").get("checks", [])

    done, checks = verify("--pod-overrides", f"{KIND}/without-gpu/verify.json")
    deep = [c for c in checks if c["id"].startswith("deep")]
    gpus = {c["about"] for c in deep if c["about"].startswith("GPU-")}
    report.check("verify NODE --deep: both GPUs were reached, and the exit status is 0", len(gpus) == 2 and done.returncode == 0, [done.returncode, done.stderr[-300:], [c for c in checks if c["verdict"] == "FAIL"]])
    for name in EACH:
        verdicts = sorted((c["about"], c["verdict"]) for c in deep if c["id"] == name)
        report.check(f"{name} passes on both", verdicts == [(gpu, "PASS") for gpu in sorted(gpus)], [c for c in deep if c["id"] == name])
    malformed = [c for c in deep if c["id"] == "deep.memory.variable"]
    report.check("deep.memory.variable passes for four malformed values on both", len(malformed) == 8 and all(c["verdict"] == "PASS" for c in malformed), malformed[:2])
    report.check("the probe pods are gone", until("no probe pod", lambda: not pods(), 30))
    restarts = [s["restartCount"] for p in api.pods() for s in p["status"].get("containerStatuses", [])]
    report.check("the tenants run on", restarts == [0, 0], restarts)

    # Without what the pods need to start CUDA: said, and nothing is left either.
    done, checks = verify()
    bare = [c for c in checks if c["id"] == "deep" and c["verdict"] == "FAIL"]
    report.check("without the driver's libraries the probes say so", done.returncode == 1 and len(bare) == 2 and all("libcuda.so.1" in c["what"] for c in bare), bare[:1] or checks[-2:])
    report.check("those pods are gone as well", until("no probe pod", lambda: not pods(), 30))
    shell.kubectl("scale", "deployment/tranche-probe", "--replicas=8")
    shell.kubectl("rollout", "status", "deployment/tranche-probe", "--timeout=90s")
    done, checks = verify("--pod-overrides", f"{KIND}/without-gpu/verify.json")
    report.check("where pods hold every slot none is taken from them", [c["verdict"] for c in checks if c["id"] == "deep"] == ["SKIP", "SKIP"] and not pods(), [c for c in checks if c["id"].startswith("deep")])
    world.kubelet.stop()
    api.stop()
