"""An API server, or what stands before it, that answers far too much: a list that unpacks to gigabytes, a list without an end, 20,000
pods, pods of other nodes, a burst of events. `tranche node` stays small and keeps answering, and goes on once answers are as usual."""

import http.server, json, socketserver, sys, threading, time, zlib

from bed import cpu_seconds, main, most_kib, wait_for


def bomb(megabytes):
    """A small body that unpacks to a list of this size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"x":"')]
    parts += [packer.compress(b"a" * (1 << 20)) for _ in range(megabytes)]
    return b"".join(parts) + packer.flush()


def pod(number, node="n1", version="5"):
    return {"metadata": {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": version},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]}, "status": {"phase": "Running"}}


def page(pods, more=""):
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "10", "continue": more}, "items": pods}).encode()


class ApiServer:
    """Answers lists of pods as `mode` says, and watches with `events`."""

    def __init__(self):
        outer = self
        self.mode, self.lists = "usual", 0
        self.bodies = {"usual": page([pod(1)]), "20,000 pods": page([pod(i) for i in range(20000)]),
                       "pods of other nodes": page([pod(1)] + [pod(i, f"other{i}") for i in range(2, 20000)]), "bomb": bomb(1000)}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def answer(self, body, **headers):
                self.send_response(200)
                for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer(b"{}")

            do_PATCH = do_POST

            def do_GET(self):
                try:
                    if not self.path.startswith("/api/v1/pods"):
                        self.send_error(404)
                    elif "watch=1" in self.path:
                        self.watch()
                    else:
                        outer.lists += 1
                        if outer.mode == "no end":
                            self.answer(page([pod(outer.lists * 500 + i, "other") for i in range(500)], f"next{outer.lists}"))
                        elif outer.mode == "bomb":
                            self.answer(outer.bodies["bomb"], Content_Encoding="gzip")
                        else:
                            self.answer(outer.bodies.get(outer.mode, outer.bodies["usual"]))
                except OSError:
                    pass

            def watch(self):
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                mode, sent = outer.mode, 0
                while outer.mode == mode:
                    if mode == "events" and not sent:
                        lines = b"".join(json.dumps({"type": "ADDED", "object": pod(i, version=str(i + 20))}).encode() + b"\n" for i in range(1, 1900))
                        self.wfile.write(b"%x\r\n" % len(lines) + lines + b"\r\n")
                        sent = 1
                    time.sleep(0.02)

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self):
        return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                           "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                           "users": [{"name": "u", "user": {"token": "t"}}]})


SERVER = ApiServer()
# What is awaited of each: how the watch fares, and how many pods are known.
MODES = {"bomb": ("waiting", None), "no end": ("waiting", None), "20,000 pods": ("watching", 20000), "pods of other nodes": ("watching", 1),
         "events": ("watching", 1899)}


def run(bed, checks):
    with open(bed.path("kubeconfig"), "w") as file:
        file.write(SERVER.kubeconfig())
    argv = [*bed.parts["node"].args, "--kubeconfig", bed.path("kubeconfig"), "--node-name", "n1"]
    for mode, (state, pods) in MODES.items():
        bed.end("node")
        SERVER.mode = mode
        bed.start("node", *argv)
        known = {}

        def settled():
            nonlocal known
            known = bed.status().get("kubernetes", {})
            return known.get("state") == state and (pods is None or known.get("pods") == pods)

        well = wait_for(settled)
        checks.check(f"{mode}: the pod watch is {state}", well, known.get("reason") or f"{known.get('pods')} pods")
        memory, spent = most_kib(bed.pid("node")), cpu_seconds(bed.pid("node"))
        checks.check(f"{mode}: the agent has had less than 60 MiB, and 20 s of CPU", memory < 60 << 10 and spent < 20, f"{memory >> 10} MiB, {spent:.1f} s")
    checks.check("all slots are healthy", bed.all_healthy())
    bed.end("node")
    SERVER.mode = "bomb"
    bed.start("node", *argv)
    wait_for(lambda: bed.status().get("kubernetes", {}).get("state") == "waiting")
    SERVER.mode = "usual"
    checks.check("it recovers once the API server answers as usual", wait_for(lambda: bed.status().get("kubernetes", {}).get("state") == "watching"))


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
