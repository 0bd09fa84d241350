"""What the repository ships as manifests, asked of a real API server in strict dry runs: the kustomize base, the manifests that are
kept, and what the chart makes for each platform and when all of it is switched on, with a Prometheus operator's PodMonitor."""

import glob

from lib.helm import Helm
from lib.installation import SOURCE
from lib.kubectl import Shell
from lib.mission import programs
from lib.pods import container, pod
from lib.programs import run as run_program
from lib.report import until

DRY_PODS = "/api/v1/namespaces/default/pods?dryRun=All"
DRY_RUN = "?dryRun=All&fieldValidation=Strict"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
DURATION = {"type": "string", "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"}
RELABELING = {"type": "object", "properties": {
    "action": {"type": "string"}, "regex": {"type": "string"}, "replacement": {"type": "string"}, "separator": {"type": "string"},
    "sourceLabels": {"type": "array", "items": {"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}}, "targetLabel": {"type": "string"}}}
ENDPOINT = {"type": "object", "properties": {"port": {"type": "string"}, "path": {"type": "string"}, "honorLabels": {"type": "boolean"}, "interval": DURATION, "scrapeTimeout": DURATION,
                                              "relabelings": {"type": "array", "items": RELABELING}}}
# A part of the Prometheus operator's: these fields have these names and kinds there.
POD_MONITORS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "podmonitors.monitoring.coreos.com"},
    "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": "PodMonitor", "listKind": "PodMonitorList", "plural": "podmonitors", "singular": "podmonitor"},
             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
                 "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                 "spec": {"type": "object", "required": ["selector"], "properties": {
                     "selector": {"type": "object", "properties": {"matchLabels": TEXTS}},
                     "podMetricsEndpoints": {"type": "array", "items": ENDPOINT}}}}}}}]}}
EVERYTHING = {"config": {"map": {"mps": "version: v1"}, "default": "mps"}, "metrics": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}, "dashboards": {"enabled": True, "annotations": {"grafana_folder": "GPUs"}}},
              "admission": {"mpsVariables": "warn"}, "openshift": {"enabled": True}, "labels": {"output": "nodefeature"}, "mig": {"manager": {"enabled": True, "evictAfter": "10m"}}, "startupTaint": "tranche.io/not-ready", "dra": {"enabled": True, "extendedResourceName": "nvidia.com/gpu.shared"},
              "nvidiaDriverRoot": "/run/nvidia/driver", "deviceAccess": "privileged"}


def refused(answers):
    """409: it is there already, as the namespace of the test is."""
    return [f"{kind}: {status} {str(answer)[:300]}" for kind, all_of in answers.items() for status, answer in all_of if status not in (201, 409)]


def of_each_platform(report, api, helm):
    """The manifests that are kept, and what Helm makes for each platform."""
    made = {path: helm("template", "-f", path).stdout for path in glob.glob(f"{SOURCE}/deploy/values/*.yaml")}
    for path in glob.glob(f"{SOURCE}/deploy/static/tranche*.yaml"):
        with open(path) as file:
            made[path] = file.read()
    wrong = {path: found for path, text in made.items() if (found := refused(api.post(text, DRY_RUN)))}
    report.check(f"the server takes each object of {len(made)} files, kept and made for each platform", len(made) > 10 and not wrong, wrong)


def warns(report, api):
    """deploy/admission/mps-variables.yaml: of whom the server warns."""
    api.create_file(f"{SOURCE}/deploy/admission/mps-variables.yaml")

    def warnings(one):
        api.call("POST", DRY_PODS, pod("dry", containers=[one]))
        return api.warnings
    found = until("the warning about MPS variables", lambda: warnings(container("main", {}, ["true"], {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "x"})))
    report.check("a pod that sets MPS variables itself is warned of", "main set CUDA_MPS_" in found[0], found[0][:100])
    found = warnings(dict(container("main", {}, ["true"]), envFrom=[{"prefix": "CUDA_MPS_", "configMapRef": {"name": "mine"}}]))
    report.check("a pod that names MPS variables by the prefix of an envFrom is warned of", any("main set CUDA_MPS_" in text for text in found), found)
    found = warnings(container("main", {}, ["true"]))
    report.check("others are not", not found, found)


def run(world):
    report, api = world.report, world.control_plane
    report.start("what is shipped as manifests")
    api.start(accounts=True)
    api.namespace("tranche")
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", POD_MONITORS)
    until("PodMonitors to be served", lambda: api.call("GET", "/apis/monitoring.coreos.com/v1/podmonitors")[0] == 200)
    warns(report, api)
    found = programs(world)
    if not found:
        return
    made = run_program(found["kubectl"], "kustomize", f"{SOURCE}/deploy/static").stdout
    answers = api.post(made, DRY_RUN)
    report.check("kubectl kustomize deploy/static: the server takes each object",
                 len(answers.get("DaemonSet", [])) == 2 and not refused(answers), refused(answers) or sorted(answers))
    answers = api.post(made.replace("hostPID: true", "hostPid: true"), DRY_RUN)
    report.check("... and refuses a field that there is not", any("hostPid" in one for one in refused(answers)), refused(answers)[:1])
    helm = Helm(Shell(world.machine, api.kubeconfig, **found))
    bad = helm("template", "--set", "migStrategy=singel", check=False)
    report.check("a value that is none is refused with the words that there are",
                 bad.returncode != 0 and "'none', 'single', 'mixed'" in bad.stderr, bad.stderr[-120:].strip())
    of_each_platform(report, api, helm)
    made = helm("template", values=EVERYTHING).stdout
    answers = api.post(made, DRY_RUN)
    report.check("the chart with everything on: the server takes each object", not refused(answers), refused(answers) or sorted(answers))
    report.check("PodMonitor: taken by the fields of the Prometheus operator, with both programs' pods", [status for status, _ in answers.get("PodMonitor", [])] == [201])
    bad = api.post(made.replace("podMetricsEndpoints", "podMetricEndpoints"), DRY_RUN)
    report.check("... and refused with a field that there is not", any("podMetricEndpoints" in one for one in refused(bad)), refused(bad)[:1])
    bad = api.post(made.replace("interval: 30s", "interval: 30 s"), DRY_RUN)
    report.check("... and with an interval that is none", any("interval" in one for one in refused(bad)), refused(bad)[:1])
    monitor = next(answer for _, answer in answers["PodMonitor"])
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    sets = [answer["spec"]["template"] for _, answer in answers["DaemonSet"]]
    ports = {port["name"] for one in sets for container in one["spec"]["containers"] for port in container.get("ports", [])}
    report.check("PodMonitor: selects the pods of both DaemonSets, by a port that both have", all(wanted <= one["metadata"]["labels"].items() for one in sets) and
                 {end["port"] for end in monitor["spec"]["podMetricsEndpoints"]} <= ports and len(sets) == 2, [dict(wanted), sorted(ports)])
