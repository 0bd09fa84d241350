"""`tranche verify NODE --deep` from outside: probe pods of our image, one for each GPU, try every limit beside a tenant, and are gone afterwards.
The node is the one of `deploy/kind/setup.sh --without-gpu`."""

import json

from lib.machine import NODE
from lib.mission import FOUR, KIND, SHARED, play
from lib.report import until

EACH = ("deep.memory.within", "deep.memory.beyond", "deep.sms", "deep.answers", "deep.sms.variable", "deep.second-process", "deep.other-user", "deep.neighbour")
OVERRIDES = ("--pod-overrides", f"{KIND}/without-gpu/verify.json")


def probe_pods(m):
    return m.kubectl("get", "pods", "-n", "tranche", "-l", "tranche.io/verify", "-o", "name").stdout.split()


def verify(m, *words):
    done = m.shell(f"{m.world.build}/bin/tranche", "verify", NODE, "--deep", "--json", *words, check=False, timeout=240)
    return done, json.loads(done.stdout or "{}").get("checks", [])


def tenants(m, count):
    m.kubectl("scale", "deployment/tranche-probe", f"--replicas={count}")
    m.kubectl("rollout", "status", "deployment/tranche-probe", "--timeout=90s")
    until(f"{count} tenants", lambda: len(m.api.pods()) == count)


def every_limit(m):
    report = m.report
    m.install(config=FOUR)
    m.amounts({SHARED: 8})
    m.kubectl("apply", "-k", f"{KIND}/without-gpu")
    m.remove("deployment/tranche-products")
    tenants(m, 0)  # whichever two of five are left may lie on one GPU: two that come anew are spread
    tenants(m, 2)
    done, checks = verify(m, *OVERRIDES)
    deep = [c for c in checks if c["id"].startswith("deep")]
    gpus = {c["about"] for c in deep if c["about"].startswith("GPU-")}
    report.check("verify NODE --deep: both GPUs were reached, and the exit status is 0", len(gpus) == 2 and done.returncode == 0, [done.returncode, done.stderr[-300:], [c for c in checks if c["verdict"] == "FAIL"]])
    for name in EACH:
        verdicts = sorted((c["about"], c["verdict"]) for c in deep if c["id"] == name)
        report.check(f"{name} passes on both", verdicts == [(gpu, "PASS") for gpu in sorted(gpus)], [c for c in deep if c["id"] == name])
    malformed = [c for c in deep if c["id"] == "deep.memory.variable"]
    report.check("deep.memory.variable passes for four malformed values on both", len(malformed) == 8 and all(c["verdict"] == "PASS" for c in malformed), malformed[:2])
    report.check("the probe pods are gone", until("no probe pod", lambda: not probe_pods(m)))
    restarts = [s["restartCount"] for p in m.api.pods() for s in p["status"].get("containerStatuses", [])]
    report.check("the tenants run on", restarts == [0, 0], restarts)


def where_it_cannot(m):
    done, checks = verify(m)  # without what the pods need to start CUDA
    bare = [c for c in checks if c["id"] == "deep" and c["verdict"] == "FAIL"]
    m.report.check("without the driver's libraries the probes say so", done.returncode == 1 and len(bare) == 2 and all("libcuda.so.1" in c["what"] for c in bare), bare[:1] or checks[-2:])
    m.report.check("those pods are gone as well", until("no probe pod", lambda: not probe_pods(m)))
    tenants(m, 8)
    # A slot that kubelet's answer has not reported yet is free to the agent, and a probe pod would be made for it.
    until("the agent to know the holder of every slot",
          lambda: (devices := m.world.tranche.status().get("devices")) and all(slot.get("holder") for device in devices for slot in device["slots"]))
    _, checks = verify(m, *OVERRIDES)
    m.report.check("where pods hold every slot none is taken from them", [c["verdict"] for c in checks if c["id"] == "deep"] == ["SKIP", "SKIP"] and not probe_pods(m), [c for c in checks if c["id"].startswith("deep")])


def run(world):
    play(world, "a node verified by pods", "H200", 2, every_limit, where_it_cannot)
