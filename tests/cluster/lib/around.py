"""What other programs of a cluster do for NVIDIA's manifests, as far as those need it: the address of the API server's
service (kube-proxy's work), and labels of NodeFeature objects on their nodes (node feature discovery's)."""

import socket
import threading
import time

from .machine import NODE, SERVICE
from .programs import run

FEATURES = "/apis/nfd.k8s-sigs.io/v1alpha1"
# The fields that GPU feature discovery and node feature discovery agree on.
NODE_FEATURES = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "nodefeatures.nfd.k8s-sigs.io"},
    "spec": {"group": "nfd.k8s-sigs.io", "scope": "Namespaced",
             "names": {"kind": "NodeFeature", "listKind": "NodeFeatureList", "plural": "nodefeatures", "singular": "nodefeature"},
             "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
                 "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                 "spec": {"type": "object", "properties": {
                     "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                     "features": {"type": "object", "required": ["attributes", "flags", "instances"], "properties": {
                         name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for name in ("attributes", "flags", "instances")}}}}}}}}]}}


class ServiceAddress:
    """Takes connections at the service's address to the API server."""

    def __init__(self):
        run("ip", "addr", "add", f"{SERVICE}/32", "dev", "lo")
        self.listener = socket.create_server((SERVICE, 443), backlog=64)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", 6443))
            except OSError:
                client.close()
                continue
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class FeatureMaster:
    """Copies labels from NodeFeature objects of a namespace to the node, and takes away those that went; notes every state that it
    saw, so that a test can say which labels were never missing."""

    def __init__(self, api, namespace):
        self.api, self.path = api, f"{FEATURES}/namespaces/{namespace}/nodefeatures"
        self.seen = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            time.sleep(0.2)
            status, listed = self.api.call("GET", self.path)
            if status != 200:
                continue
            wanted = {}
            for item in listed["items"]:
                wanted.update(item["spec"].get("labels", {}))
            before = self.seen[-1] if self.seen else {}
            if wanted != before:
                patch = {**{key: None for key in before if key not in wanted}, **wanted}
                if self.api.call("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": patch}})[0] == 200:
                    self.seen.append(wanted)
