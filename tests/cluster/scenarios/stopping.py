"""Clients are drained before any signal: the admission policy's hook, a user's own hook, forced deletion, a failed liveness
probe, and what happens when nobody drains."""

import json
import os
import time

from lib.containers import of_pod
from lib.drains import Recorder, endpoint_of
from lib.pods import container, pod
from lib.programs import run as run_program, write
from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"
HOOK = "/run/tranche/bin/tranche-drain"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
DEPLOY = os.path.join(os.path.dirname(__file__), "../../../deploy/admission")
TERM = "signal TERM"
# Says when its stop signal comes; what it waits for is in the background, so that the trap runs at once.
LISTENS = f"trap 'echo {TERM}; exit 0' TERM; echo ready; while :; do sleep 100 & wait $!; done"


def listener(name, script=LISTENS, pre_stop=None, grace=10, **more):
    """A pod that holds one slot and logs its stop signal. Not in the host's process namespace: its init is PID 1."""
    one = container("main", {GPU: 1}, ["/bin/sh", "-c", script])
    if pre_stop:
        one["lifecycle"] = {"preStop": pre_stop}
    made = pod(name, containers=[one])
    made["spec"].update({"hostPID": False, "terminationGracePeriodSeconds": grace}, **more)
    return made


def run(world):
    report, kubelet, tranche, api = world.report, world.kubelet, world.tranche, world.control_plane
    report.start("stopping")
    api.start()
    tranche.make_gpus(1)
    tranche.configure(sharing("mps", 10))
    kubelet.start(api.kubeconfig)
    tranche.start_mps()
    tranche.start_node()
    tranche.until_serves(10)
    until("the node to be free of taints", lambda: api.node() and not api.node().get("spec", {}).get("taints"))
    offer = tranche.status().get("stopping", {})
    report.check("the agent puts tranche-drain where containers get it", offer.get("preStop") == "offered"
                 and os.access(f"{offer.get('programDir')}/tranche-drain", os.X_OK), offer)
    admission(report, api)

    def start(made, **options):
        """The running pod and the recorder at its endpoint."""
        name = made["metadata"]["name"]
        api.add(made)
        api.until_phase(name, "Running")
        until(f"pod {name} to be ready", lambda: any(line == "ready" for _, line in kubelet.stamped(api.pod(name))))
        endpoint = until(f"the endpoint of {name}", lambda: endpoint_of(tranche, name))
        return api.pod(name), Recorder(endpoint, **options)

    def line_of(stopped, text, seconds=120):
        """When the pod's log says it."""
        return until(f"{stopped['metadata']['name']} to say {text!r}",
                     lambda: next((when for when, line in kubelet.stamped(stopped) if line.startswith(text)), None), seconds)

    def delete(stopped, grace=None):
        began = time.time()
        api.call("DELETE", f"{PODS}/{stopped['metadata']['name']}", {"gracePeriodSeconds": grace} if grace is not None else {})
        return began

    def gone(stopped):
        return until("the pod to be gone", lambda: api.pod(stopped["metadata"]["name"]) is None)

    def drained_first(what, stopped, recorder, began, signals=TERM):
        signal = line_of(stopped, signals)
        first = recorder.ended[0] if recorder.ended else None
        report.check(f"{what}: drained before SIGTERM", first and began <= first <= signal,
                     f"drained {ms(first, began)} ms, SIGTERM {ms(signal, began)} ms after the deletion")
        return signal

    def end(recorder, stopped):
        gone(stopped)
        recorder.close()

    # --- the hook -----------------------------------------------------------------------------------------------------
    bare = listener("plain")
    bare["spec"]["containers"][0]["securityContext"] = {"runAsUser": 1500, "runAsGroup": 1500, "readOnlyRootFilesystem": True,
                                                        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    plain, recorder = start(bare)
    report.check("a pod without a hook gets ours", command_of(plain) == [HOOK], command_of(plain))
    for _ in range(2):
        repeated = run_program(f"{offer['programDir']}/tranche-drain", "--socket", recorder.path, "--strict", check=False)
    report.check("a drain may come again", repeated.returncode == 0 and len(recorder.ended) == 2, repeated.stdout.strip())
    recorder.asked, recorder.ended = [], []
    drained_first("policy's hook, as uid 1500 over a read-only root", plain, recorder, delete(plain))
    end(recorder, plain)

    own = ["/bin/sh", "-c", "echo own hook > /proc/1/fd/1; until [ -e /tmp/go ]; do sleep 0.1; done"]
    wrapped, recorder = start(listener("wrapped", pre_stop={"exec": {"command": own}}))
    report.check("a user's own exec hook is kept behind ours", command_of(wrapped) == [HOOK, "--", *own], command_of(wrapped))
    began = delete(wrapped)
    line_of(wrapped, "own hook")
    report.check("wrapped hook: the user's command runs first", not recorder.asked)
    write(f"/proc/{min(of_pod(wrapped))}/root/tmp/go", "")
    drained_first("wrapped hook", wrapped, recorder, began)
    end(recorder, wrapped)

    forced, recorder = start(listener("forced"))
    drained_first("forced deletion", forced, recorder, delete(forced, 0))
    end(recorder, forced)

    probe = {"exec": {"command": ["test", "-e", "/tmp/alive"]}, "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 3}
    sick = listener("sick", f"touch /tmp/alive; {LISTENS}", restartPolicy="Always")
    sick["spec"]["containers"][0]["livenessProbe"] = probe
    sick, recorder = start(sick)
    began = time.time()
    os.unlink(f"/proc/{min(of_pod(sick))}/root/tmp/alive")
    drained_first("failed liveness probe", sick, recorder, began)
    delete(sick, 0)
    end(recorder, sick)

    clients = "for i in 1 2 3; do sim-cuda --kernel-ms 1 --hold --report-every 0.2 & done; echo ready; "
    three = listener("three", clients + f"trap 'echo {TERM}; exit 0' TERM; while :; do sleep 100 & wait $!; done", hostPID=True)
    three, recorder = start(three)
    until("three clients to attach", lambda: sum('"attached"' in line for _, line in kubelet.stamped(three)) == 3)
    signal = drained_first("three clients in one container", three, recorder, delete(three))
    if recorder.real:
        outcomes = [client["outcome"] for client in json.loads(recorder.answers[0])["clients"]]
        report.check("three clients: all of them were ended before SIGTERM", outcomes == ["terminated"] * 3 and recorder.ended[0] <= signal, outcomes)
    report.check("three clients: one drain for all", len(recorder.asked) == 1, len(recorder.asked))
    end(recorder, three)

    # --- nobody drains ------------------------------------------------------------------------------------------------
    away, recorder = start(listener("away"))
    recorder.close()
    os.path.exists(recorder.path) and os.rename(recorder.path, recorder.path + ".away")
    began = delete(away)
    signal = line_of(away, TERM)
    report.check("nobody at the drain socket: SIGTERM comes within the grace", True, f"SIGTERM after {ms(signal, began)} ms")
    gone(away)
    mute, recorder = start(listener("mute", grace=20), mute=True)
    began = delete(mute)
    signal = line_of(mute, TERM)
    report.check("a mute drain socket: held up for the hook's 5 s", 4.5 < signal - began, f"SIGTERM after {ms(signal, began)} ms")
    end(recorder, mute)

    tranche.stop()
    kubelet.stop()
    api.stop()


def admission(report, api):
    """The policies as the chart applies them; in force when a dry run shows it."""
    for name in ("drain-hook.yaml", "mps-variables.yaml"):
        api.create_file(f"{DEPLOY}/{name}", ADMISSION)

    def dry(made):
        status, answer = api.call("POST", f"{PODS}?dryRun=All", made)
        return answer if status == 201 else {"error": answer}

    until("the policy to be in force", lambda: command_of(dry(listener("dry"))) == [HOOK])
    made = listener("dry")
    containers = made["spec"]["containers"]
    containers.append(dict(container("without", {}, ["true"])))
    containers.append(dict(container("http", {GPU: 1}, ["true"]), lifecycle={"preStop": {"httpGet": {"port": 80, "path": "/x"}}}))
    containers.append(dict(container("post", {GPU + ".shared": 1}, ["true"]), lifecycle={"postStart": {"exec": {"command": ["true"]}}}))
    containers.append(dict(container("again", {GPU: 1}, ["true"]), lifecycle={"preStop": {"exec": {"command": [HOOK, "--", "x"]}}}))
    containers.append(dict(container("other", {"nvidia.com/gpus": 1}, ["true"])))
    made["spec"]["initContainers"] = [dict(container("side", {GPU: 1}, ["true"]), restartPolicy="Always"), container("once", {GPU: 1}, ["true"])]
    answer = dry(made)
    commands = {c["name"]: c.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
                for c in answer.get("spec", {}).get("containers", []) + answer.get("spec", {}).get("initContainers", [])}
    report.check("the policy: who asks gets the hook, sidecars too; others, httpGet, and ours already stay as they are",
                 commands == {"main": [HOOK], "without": None, "http": None, "post": [HOOK], "again": [HOOK, "--", "x"], "other": None,
                              "side": [HOOK], "once": None}, commands or answer)
    post = next((c for c in answer.get("spec", {}).get("containers", []) if c["name"] == "post"), {})
    report.check("the policy: postStart is kept", "postStart" in post.get("lifecycle", {}))

    def warned():
        dry(pod("dry", containers=[container("main", {GPU: 1}, ["true"], {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "x"})]))
        return api.warnings
    until("the warning about MPS variables", warned)
    report.check("a pod that sets MPS variables itself is warned of", "main set CUDA_MPS_" in api.warnings[0], api.warnings[0][:100])
    dry(pod("dry", containers=[dict(container("main", {GPU: 1}, ["true"]), envFrom=[{"prefix": "CUDA_MPS_", "configMapRef": {"name": "mine"}}])]))
    report.check("a pod that names MPS variables by the prefix of an envFrom is warned of", any("main set CUDA_MPS_" in text for text in api.warnings), api.warnings)
    dry(listener("dry"))
    report.check("others are not", not api.warnings, api.warnings)


def command_of(made):
    return made.get("spec", {}).get("containers", [{}])[0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")


def ms(when, since):
    return "no" if when is None else f"{(when - since) * 1000:.0f}"
