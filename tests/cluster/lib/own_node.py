"""The service account of the node agents: its rights, its token, and what the token of one node's agent may do at the API server, asked in
dry runs: deploy/admission/own-*.yaml."""

import os

from .programs import write
from .report import until

DEPLOY = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../deploy"))
STRATEGIC = "application/strategic-merge-patch+json"
REFUSED = (403, 422)


def account(api, *rights):
    """The account in the namespace tranche, with the rights of these files of deploy/rbac beside node.yaml."""
    api.namespace("tranche")
    for name in ("node", *rights):
        api.create_file(f"{DEPLOY}/rbac/{name}.yaml")


def token_of(api, **pod):
    """A token of the account; with name and uid of a pod of the namespace tranche it is bound to that, as kubelet's own are."""
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **pod}} if pod else {}
    return api.create("/api/v1/namespaces/tranche/serviceaccounts/tranche-node/token",
                      {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": bound})["status"]["token"]


def kubeconfig(world, token, authority="pki/apiserver.crt"):
    """A file for the token, with the certificate of an authority. The API server signs for itself here."""
    path = world.machine.path
    write(path("token"), token, 0o600)
    world.control_plane.write_kubeconfig(path("agent.json"), authority=path(authority), token_file=path("token"))
    return path("agent.json")


class Asker:
    def __init__(self, api, report, token):
        self.api, self.report, self.token = api, report, token

    def node(self, name, patch, part="", kind=None):
        return self.api.call("PATCH", f"/api/v1/nodes/{name}{part}?dryRun=All", patch, kind=kind, token=self.token)

    def label(self, name, key, value="forged"):
        return self.node(name, {"metadata": {"labels": {key: value}}})

    def condition(self, name, kind):
        entry = {"type": kind, "status": "True", "reason": "Forged", "message": "by a test"}
        return self.node(name, {"status": {"conditions": [entry]}}, "/status", STRATEGIC)

    def may(self, what, answer):
        self.report.check(f"the agent's token may change {what}", answer[0] == 200, answer)

    def may_not(self, what, answer, why):
        self.report.check(f"and not {what}", answer[0] in REFUSED and why in answer[1], answer[1])


def nodes(api, report, token, own, other):
    """own, other: names of two Nodes; the token is bound to a pod of the first. The agent's roles are those for labels and conditions."""
    ask = Asker(api, report, token)
    until("the API server has read the policy", lambda: ask.label(other, "nvidia.com/gpu.count")[0] in REFUSED)
    ask.may("a label of Tranche on its own Node", ask.label(own, "nvidia.com/gpu.count"))
    ask.may("the annotation that lists them", ask.node(own, {"metadata": {"annotations": {"tranche.io/labels": "nvidia.com/gpu.count"}}}))
    ask.may("the state of its MIG manager", ask.label(own, "nvidia.com/mig.config.state"))
    for condition in ("TrancheReady", "TrancheMigReady", "TrancheDraReady"):
        ask.may(f"the condition {condition}", ask.condition(own, condition))
    ask.may_not("a label of another Node", ask.label(other, "nvidia.com/gpu.count"), "changes that Node only")
    ask.may_not("a condition of another Node", ask.condition(other, "TrancheReady"), "changes that Node only")
    for key in ("example.com/pool", "node-role.kubernetes.io/control-plane", "nvidia.com/mig.config", "nvidia.com/device-plugin.config", "nvidia.com/gpu.present", "nvidia.com/gpu.deploy.dcgm"):
        ask.may_not(f"the label {key} of its own", ask.label(own, key), key)
    ask.may_not("a label that is there", ask.label(own, "kubernetes.io/hostname", None), "kubernetes.io/hostname")
    ask.may_not("a label by the status", ask.node(own, {"metadata": {"labels": {"example.com/pool": "a"}}}, "/status"), "example.com/pool")
    ask.may_not("an annotation of others", ask.node(own, {"metadata": {"annotations": {"example.com/a": "b"}}}), "example.com/a")
    ask.may_not("a finalizer", ask.node(own, {"metadata": {"finalizers": ["example.com/stay"]}}), "metadata.finalizers")
    ask.may_not("the condition Ready", ask.condition(own, "Ready"), "Ready")
    ask.may_not("the capacity", ask.node(own, {"status": {"capacity": {"nvidia.com/gpu": "99"}}}, "/status"), "status.capacity")
    ask.may_not("taints", ask.node(own, {"spec": {"taints": [{"key": "example.com/a", "effect": "NoExecute"}]}}), "example.com/a")
    ask.may_not("whether pods may be scheduled", ask.node(own, {"spec": {"unschedulable": True}}), "spec.unschedulable")


def evictions(api, report, token, own, other):
    """own, other: a pod of the token's node, and one of another; both in the namespace default."""
    def evict(pod, uid):
        metadata = {"name": pod["metadata"]["name"], "namespace": "default"}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": {"preconditions": {"uid": uid}} if uid else {}}
        return api.call("POST", f"/api/v1/namespaces/default/pods/{metadata['name']}/eviction?dryRun=All", body, token=token)
    until("the API server has read the policy", lambda: evict(other, other["metadata"]["uid"])[0] in REFUSED)
    own_uid, other_uid = own["metadata"]["uid"], other["metadata"]["uid"]
    ask = Asker(api, report, token)
    answer = evict(own, own_uid)
    report.check("the agent's token may evict a pod of its node", answer[0] == 201, answer)
    ask.may_not("one of another node", evict(other, other_uid), "evicts pods of that node only")
    ask.may_not("one without its UID", evict(own, ""), "UID as precondition")
    ask.may_not("one with another's UID", evict(own, other_uid), "UID as precondition")
