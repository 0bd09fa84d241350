"""What NVIDIA's chart and its GPU Operator make alike: the config manager beside each program, volumes, roles."""

from .control_plane import place

NODE_NAME = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
LABEL = "nvidia.com/device-plugin.config"
CONFIGS = [{"name": "available-configs", "mountPath": "/available-configs"}, {"name": "config", "mountPath": "/config"}]
PRIVILEGED = {"privileged": True}
RUNTIME_CLASS = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}


def env(**values):
    return [{"name": key, "value": value} for key, value in values.items()]


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def host(name, path, kind=None):
    return {"name": name, "hostPath": {"path": path, **({"type": kind} if kind else {})}}


def mount(name, path, **more):
    return {"name": name, "mountPath": path, **more}


def manager(name, image, default, fallbacks, reader=None, security=None):
    """config-manager: an init container that chooses once, or with `reader` a sidecar that signals it."""
    words = env(ONESHOT="false" if reader else "true", KUBECONFIG="") + [NODE_NAME] + env(
        NODE_LABEL=LABEL, CONFIG_FILE_SRCDIR="/available-configs", CONFIG_FILE_DST="/config/config.yaml", DEFAULT_CONFIG=default, FALLBACK_STRATEGIES=fallbacks,
        SEND_SIGNAL="true" if reader else "false", SIGNAL="1" if reader else "", PROCESS_TO_SIGNAL=reader or "")
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": ["config-manager"], "env": words, "volumeMounts": CONFIGS,
            **({"securityContext": security} if security else {})}


def container(name, image, command, variables, mounts, security=None, **more):
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": command, "env": variables, "volumeMounts": mounts,
            **({"securityContext": security} if security is not None else {}), **more}


def daemon_set(name, namespace, labels, spec):
    # No network of pods on the node of the test; both of NVIDIA's ways to install have a value for the node's own.
    spec = {**spec, "hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet", "runtimeClassName": "nvidia", "priorityClassName": "system-node-critical",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, *spec.get("tolerations", [])]}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace}, "spec": {
        "selector": {"matchLabels": labels}, "updateStrategy": {"type": "RollingUpdate"}, "template": {"metadata": {"labels": labels}, "spec": spec}}}


def account(name, namespace):
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def role(name, subject, namespace, rules, of=None):
    """A role and its binding: of the cluster, or of the namespace `of`."""
    kind, place = ("Role", {"namespace": of}) if of else ("ClusterRole", {})
    group = "rbac.authorization.k8s.io"
    return [{"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name, **place}, "rules": rules},
            {"apiVersion": f"{group}/v1", "kind": f"{kind}Binding", "metadata": {"name": name, **place}, "roleRef": {"apiGroup": group, "kind": kind, "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": namespace}]}]


def rule(group, resource, *verbs):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def apply(api, items):
    """Creates or replaces, as `helm upgrade` and the operator do."""
    for item in items:
        name = f"{place(item)}/{item['metadata']['name']}"
        if api.call("GET", name)[0] == 200:
            status, answer = api.call("PATCH", name, item)
        else:
            status, answer = api.call("POST", place(item) + "?fieldValidation=Strict", item)
        if status not in (200, 201):
            raise RuntimeError(f"{item['kind']} {item['metadata']['name']}: {status} {answer}")
