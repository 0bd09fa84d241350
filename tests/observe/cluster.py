"""An API server of a few lines, with the paths that `tranche web`, `top --cluster` and `why --cluster` ask."""

import http.server, json, socketserver, threading


class Cluster:
    def __init__(self, statuses):
        """statuses: {node: document or None}"""
        outer = self
        self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_GET(self):
                outer.asked.append(self.path)
                in_namespace = "/namespaces/tranche/"
                if self.path == f"/apis/apps/v1{in_namespace}daemonsets":
                    return self.answer(200, {"kind": "DaemonSetList", "metadata": {"resourceVersion": "1"}, "items": [
                        {"metadata": {"name": "tranche-node", "uid": "the-set"}, "spec": {"template": {"spec": {"serviceAccountName": "tranche-node"}}}}]})
                if self.path.startswith(f"/api/v1{in_namespace}pods?"):
                    items = [{"metadata": {"name": f"agent-{node}", "namespace": "tranche", "labels": {"app.kubernetes.io/name": "tranche"}, "ownerReferences": [{"kind": "DaemonSet", "name": "tranche-node", "uid": "the-set", "controller": True}]},
                              "spec": {"nodeName": node, "serviceAccountName": "tranche-node"}} for node in statuses]
                    return self.answer(200, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items})
                node = self.path.removeprefix(f"/api/v1{in_namespace}pods/agent-").removesuffix(":9400/proxy/status")
                document = statuses.get(node)
                return self.answer(200, {**document, "node": node}) if document else self.answer(503, {"kind": "Status", "message": "no endpoints available", "code": 503})

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self, path):
        cluster = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                   "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
        with open(path, "w") as file:
            json.dump(cluster, file)
        return path
