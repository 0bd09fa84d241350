"""The configuration of a node by its label, on a real API server: the ConfigMap is watched with the roles of
deploy/rbac/node.yaml and deploy/rbac/config.yaml, capacity follows label and contents, a running client goes
on, and what is wrong or deleted leaves the last good in force."""

from lib.machine import NODE
from lib.own_node import account, kubeconfig, token_of
from lib.programs import Program
from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"
LABEL = "nvidia.com/device-plugin.config"
MAPS = "/api/v1/namespaces/tranche/configmaps"


def run(world):
    report, tranche, api, machine = world.report, world.tranche, world.control_plane, world.machine
    report.start("a configuration for each node")
    world.start_cluster()
    tranche.make_gpus(2)
    account(api, "config")
    credentials = kubeconfig(world, token_of(api))

    def label(value):
        api.call("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {LABEL: value}}})

    def edit(data):
        return api.call("PATCH", f"{MAPS}/tranche-configs", {"data": data})[0] == 200

    def config():
        return tranche.status().get("config", {})

    def follows(what, change, slots, name):
        change()
        until(f"{slots} slots", lambda: len([1 for d in tranche.status().get("devices", []) for _ in d["slots"]]) == slots)
        until("kubelet to have reported", lambda: api.amounts() == (slots, slots))
        report.check(f"{what}: {slots} slots of {name}", config().get("name") == name, config())

    api.create(MAPS, {"metadata": {"name": "tranche-configs"}, "data": {"mps-two": sharing("mps", 2), "mps-four": sharing("mps", 4)}})
    api.create(MAPS, {"metadata": {"name": "another"}, "data": {"x": "version: v1\n"}})
    program = f"{tranche.build}/bin/tranche"
    tranche.mps = Program("mps", [program, "mps", "--config-of-node", "/run/tranche/config-in-force.json", "--log-format", "json"],
                          machine.path("mps-config.log"), env=tranche.env)
    node = [program, "node", "--kubeconfig", credentials, "--config-map", "tranche/tranche-configs", "--default-config", "mps-two",
            "--log-format", "json"]
    tranche.start_node(node, env={"NODE_NAME": NODE})
    tranche.until_serves(4)
    report.check("no label: the default, with these roles and nothing more", config().get("chosenBy") == "default" and not config().get("problems"), config())

    may = {f"{verb} {name}": api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {
        "user": "system:serviceaccount:tranche:tranche-node", "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {"namespace": "tranche", "verb": verb, "resource": "configmaps", "name": name}}})["status"]["allowed"]
        for verb in ("get", "watch", "patch") for name in ("tranche-configs", "another")}
    report.check("of ConfigMaps it may see that one only", sorted(k for k, yes in may.items() if yes) == ["get tranche-configs", "watch tranche-configs"], may)

    world.client("tenant", {GPU: 1})
    report.check("the tenant holds a slot", any(s.get("holder") for d in tranche.status()["devices"] for s in d["slots"]))

    hash_before = config()["hash"]
    edit({"mps-two": sharing("mps", 2) + "# the same\n"})
    until("the edit to be in force", lambda: config().get("hash") not in (None, hash_before))
    world.go_on("an edit that changes nothing for the resource: the running client goes on without an error", "tenant")

    edit({"mps-two": "version: v1\nsharing: [\n"})
    refused = until("the edit to be refused", lambda: (c := config()).get("problems") and c)
    report.check("a bad edit: the last good stays, and the Problem names ConfigMap, key, line and column",
                 refused["inForce"] == "last good" and "ConfigMap tranche/tranche-configs[mps-two]:" in refused["problems"][0] and api.amounts() == (4, 4), refused["problems"])
    world.go_on("a bad edit: the running client goes on without an error", "tenant")
    edit({"mps-two": sharing("mps", 2)})
    until("the mended one to be in force", lambda: not config().get("problems"))
    api.remove("tenant")

    follows("the node is labelled", lambda: label("mps-four"), 8, "mps-four")
    until("tranche mps to follow", lambda: tranche.status("/run/nvidia/mps/mps.sock").get("config", {}).get("name") == "mps-four")
    follows("the key is edited", lambda: edit({"mps-four": sharing("mps", 3)}), 6, "mps-four")
    label("mps-fuor")
    unknown = until("the unknown label to be said", lambda: (c := config()).get("problems") and c)
    report.check("a label that names none: nothing changes, and the names are reported", "mps-four, mps-two" in unknown["problems"][0] and api.amounts() == (6, 6), unknown["problems"])
    follows("the label is taken off", lambda: label(None), 4, "mps-two")

    label("mps-four")
    tranche.until_serves(6)
    tranche.node.stop()
    tranche.start_node(node, env={"NODE_NAME": NODE}, name="node-again")
    tranche.until_serves(6)
    with open(machine.path(f"node-again-{tranche.started}.log"), errors="replace") as log:
        report.check("a labelled node that starts never had the default in force", "[mps-two]" not in log.read())

    api.call("DELETE", f"{MAPS}/tranche-configs")
    gone = until("the deletion to be said", lambda: (c := config()).get("problems") and c)
    report.check("the ConfigMap is deleted: the last good stays", gone["inForce"] == "last good", [gone["inForce"], gone["problems"]])
    until("six slots, by kubelet's word too", lambda: api.amounts() == (6, 6))
