"""The part of the Kubernetes API that `tranche node` requests: list and watch of pods, ResourceClaims and ResourceSlices. Events and the
node's condition are accepted and forgotten. Plain HTTP/1.1 on the loopback, one thread a connection; pods and claims change by calls of
the script that owns the server."""

import http.server, json, threading, time, urllib.parse, uuid

NODE = "n1"
RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS, SLICES = f"{RESOURCES}/namespaces/default/resourceclaims", f"{RESOURCES}/resourceslices"


class PodsApi:
    def __init__(self):
        self.changed, self.version, self.pods, self.happened = threading.Condition(), 1, {}, []
        self.sent = {}
        self.objects = {}  # claims and slices by path
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # an event is on its way at once, as the real one's

            def do_GET(self):
                api.get(self)

            def accept(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path.split("?")[0].startswith(RESOURCES):
                    return api.write(self, body)
                answer(self, 201 if self.command == "POST" else 200, body or b"{}")

            do_POST = do_PUT = do_PATCH = do_DELETE = accept

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self):
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "a", "user": {}}],
                           "clusters": [{"name": "a", "cluster": {"server": url}}],
                           "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]})

    def stop(self):
        self.server.shutdown()

    # --- what the script does to pods -------------------------------------------------------------------------------

    def claim(self, name, uid, pod, results):
        """A claim that is allocated, and reserved for one pod."""
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
        self.objects[f"{CLAIMS}/{name}"] = {
            "kind": "ResourceClaim", "metadata": {"namespace": "default", "name": name, "uid": uid}, "status": {
            "allocation": {"devices": {"results": results}}, "reservedFor": reserved}}

    def add(self, name, uid, claim=None):
        container = {"name": "main", **({"resources": {"claims": [{"name": "gpu"}]}} if claim else {})}
        claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]} if claim else {}
        status = {"name": "main", "containerID": f"containerd://{uuid.uuid4().hex * 2}", "ready": True, "started": True,
                  "state": {"running": {}}}
        return self._put("ADDED", {"metadata": {"namespace": "default", "name": name, "uid": uid},
                                   "spec": {"nodeName": NODE, "containers": [container], **claims},
                                   "status": {"phase": "Running", "containerStatuses": [status]}})

    def mark(self, name, grace):
        """Deleted with a grace: the object stays, and says so. Answers the number of the event."""
        pod = json.loads(json.dumps(self.pods[name]))
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + grace))
        pod["metadata"].update(deletionTimestamp=now, deletionGracePeriodSeconds=grace)
        return self._put("MODIFIED", pod)

    def remove(self, name):
        """The object is gone. Answers the number of the event; None when there is none."""
        with self.changed:
            pod = self.pods.get(name)
        return self._put("DELETED", pod) if pod else None

    def when_sent(self, version, seconds=60.0):
        """The moment when a watch was sent that event; None when none was in time."""
        with self.changed:
            self.changed.wait_for(lambda: version in self.sent, seconds)
            return self.sent.get(version)

    def _put(self, kind, pod):
        with self.changed:
            self.version += 1
            pod = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.version)}}
            if kind == "DELETED":
                self.pods.pop(pod["metadata"]["name"], None)
            else:
                self.pods[pod["metadata"]["name"]] = pod
            line = json.dumps({"type": kind, "object": {"apiVersion": "v1", "kind": "Pod", **pod}}).encode() + b"\n"
            self.happened.append((self.version, line))
            self.changed.notify_all()
            return self.version

    # --- what it answers --------------------------------------------------------------------------------------------

    def get(self, request):
        place = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(place.query))
        if place.path == "/api/v1/pods" and query.get("watch") == "1":
            return self._watch(request, int(query.get("resourceVersion") or 0), float(query.get("timeoutSeconds") or 300))
        if place.path == "/api/v1/pods":
            with self.changed:
                items, version = list(self.pods.values()), self.version
            body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}, "items": items}
            return answer(request, 200, json.dumps(body).encode())
        if place.path.startswith("/api/v1/nodes/"):
            return answer(request, 200, json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE, "uid": "n"}}).encode())
        if place.path == SLICES and query.get("watch") == "1":
            return self._watch(request, self.version, float(query.get("timeoutSeconds") or 300), of_pods=False)
        if place.path in (SLICES, CLAIMS):
            items = [each for path, each in self.objects.items() if path.startswith(place.path + "/")]
            body = {"kind": "List", "apiVersion": "resource.k8s.io/v1", "metadata": {"resourceVersion": str(self.version)}, "items": items}
            return answer(request, 200, json.dumps(body).encode())
        if place.path in self.objects:
            return answer(request, 200, json.dumps(self.objects[place.path]).encode())
        not_found(request)

    def write(self, request, body):
        """Claims and slices: created, replaced, merged one level deep (the status of a claim), deleted."""
        path, made = request.path.split("?")[0].removesuffix("/status"), json.loads(body or b"{}")
        with self.changed:
            self.version += 1
            if request.command == "POST":
                path += "/" + made["metadata"]["name"]
            elif path not in self.objects:
                return not_found(request)
            if request.command == "DELETE":
                self.objects.pop(path)
                return answer(request, 200, b"{}")
            if request.command == "PATCH":
                old = self.objects[path]
                made = {**old, **{k: {**old.get(k, {}), **v} if isinstance(v, dict) else v for k, v in made.items()}}
            made["metadata"] = {"uid": str(uuid.uuid4()), **made.get("metadata", {}), "resourceVersion": str(self.version)}
            self.objects[path] = made
        answer(request, 201 if request.command == "POST" else 200, json.dumps(made).encode())

    def _watch(self, request, version, seconds, of_pods=True):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.wfile.flush()
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                with self.changed:
                    self.changed.wait_for(lambda: self.version > version, end - time.monotonic())
                    events = [each for each in self.happened if each[0] > version] if of_pods else []
                    version = self.version
                for number, line in events:
                    request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    request.wfile.flush()
                    with self.changed:
                        self.sent.setdefault(number, time.monotonic())
                        self.changed.notify_all()
            request.wfile.write(b"0\r\n\r\n")
        except OSError:
            request.close_connection = True


def not_found(request):
    answer(request, 404, json.dumps({"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}).encode())


def answer(request, status, body):
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
