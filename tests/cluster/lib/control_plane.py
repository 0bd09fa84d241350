"""etcd, API server, scheduler and controller manager of the cluster, on its first node, and a client of its API."""

import json
import os
import re
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

import yaml

from .machine import ADDRESS, NODE, SERVICE
from .programs import Program, run, write
from .report import Failed, until

TOKEN = "tranche-test-admin"
SERVER = "https://127.0.0.1:6443"


def place(item):
    """The path at which the API server has objects like this one."""
    group, kind, space = item["apiVersion"], item["kind"].lower(), item["metadata"].get("namespace")
    plural = kind[:-1] + "ies" if kind.endswith("y") else kind + ("es" if kind.endswith("s") else "s")
    return ("/api/" if group == "v1" else "/apis/") + group + (f"/namespaces/{space}" if space else "") + f"/{plural}"


class ControlPlane:
    def __init__(self, machine, binaries):
        self.machine, self.binaries = machine, binaries
        self.programs = []
        self.more = {}  # further flags, by program
        self.warnings = []  # what the API server said beside its last answer

    @property
    def kubeconfig(self):
        return self.machine.path("kubeconfig.json")

    def write_kubeconfig(self, path, server=SERVER, authority=None, token_file=None):
        """For the administrator, who trusts any server; or for the token of a file, with the authority's certificate."""
        trust = {"certificate-authority": authority} if authority else {"insecure-skip-tls-verify": True}
        write(path, json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, **trust}}],
            "users": [{"name": "user", "user": {"tokenFile": token_file} if token_file else {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}]}))

    def start(self, accounts=False):
        """With `accounts`, pods get the tokens of their service accounts, and may be privileged, as in any other cluster."""
        path = self.machine.path
        os.makedirs(path("pki"), exist_ok=True)
        run("openssl", "genrsa", "-out", path("pki/sa.key"), "2048")
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tranche-test", "-keyout", path("pki/apiserver.key"), "-out", path("pki/apiserver.crt"),
            "-addext", f"subjectAltName=IP:127.0.0.1,IP:{ADDRESS},IP:{SERVICE},DNS:localhost,DNS:kubernetes.default.svc")
        write(path("tokens.csv"), f'{TOKEN},admin,admin,"system:masters"\n')
        self.write_kubeconfig(self.kubeconfig)
        self._program("etcd", ["etcd", "--data-dir", path("etcd"), "--listen-client-urls", "http://127.0.0.1:2379",
                               "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380",
                               "--unsafe-no-fsync"])
        # An API server that finds no etcd goes by guesses of what etcd can do, and its caches may never catch up.
        until("etcd", lambda: "true" in self._etcd_health())
        self._program("kube-apiserver", [
            f"{self.binaries}/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--service-account-key-file={path('pki/sa.key')}",
            f"--service-account-signing-key-file={path('pki/sa.key')}", "--service-account-issuer=https://tranche.test",
            f"--token-auth-file={path('tokens.csv')}", "--authorization-mode=RBAC", "--bind-address=0.0.0.0", f"--advertise-address={ADDRESS}",
            f"--tls-cert-file={path('pki/apiserver.crt')}", f"--tls-private-key-file={path('pki/apiserver.key')}", f"--cert-dir={path('pki')}",
            "--service-cluster-ip-range=10.67.0.0/24", *(["--allow-privileged"] if accounts else ["--disable-admission-plugins=ServiceAccount"]), *self.more.get("kube-apiserver", [])])
        until("the API server", lambda: self.call("GET", "/readyz", text=True)[0] == 200)
        for name in ("kube-scheduler", "kube-controller-manager"):
            more = [f"--service-account-private-key-file={path('pki/sa.key')}", f"--root-ca-file={path('pki/apiserver.crt')}"] if name.endswith("manager") else []
            self._program(name, [f"{self.binaries}/{name}", f"--kubeconfig={self.kubeconfig}", f"--authentication-kubeconfig={self.kubeconfig}",
                                 f"--authorization-kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1", *more, *self.more.get(name, [])])
        self.namespace("default")

    def namespace(self, name, labels=None):
        """Is made unless it is there; waits for what its pods need."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        needs = (f"/api/v1/namespaces/{name}/serviceaccounts/default", f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt")
        until(f"what pods of {name} need", lambda: all(self.call("GET", path)[0] == 200 for path in needs))

    def join(self, node, kubeconfig=None):
        """The node's kubelet is started; waits until pods may go there."""
        name = node.identity.name
        node.kubelet.start(kubeconfig)
        until(f"{name} to be ready", lambda: self.ready(name))
        until(f"{name} to be free of taints", lambda: not self.node(name).get("spec", {"taints": 1}).get("taints"))

    @staticmethod
    def _etcd_health():
        try:
            with urllib.request.urlopen("http://127.0.0.1:2379/health", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def _program(self, name, argv):
        self.programs.append(Program(name, argv, self.machine.path(f"{name}.log")))

    def stop(self):
        for program in reversed(self.programs):
            try:
                program.stop(signal.SIGKILL, 10)
            except (Failed, subprocess.SubprocessError):
                pass
        self.programs = []

    # --- the API ------------------------------------------------------------------------------------------------------
    def call(self, method, path, body=None, text=False, kind=None, token=TOKEN):
        """(status, answer); status 0 when nobody answers. PATCH merges by default."""
        kind = kind or ("application/merge-patch+json" if method == "PATCH" else "application/json")
        request = urllib.request.Request(SERVER + path, method=method, data=None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {token}", "Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=60, context=ssl._create_unverified_context()) as answer:
                content = answer.read().decode()
                self.warnings = answer.headers.get_all("Warning") or []
                return answer.status, content if text else json.loads(content or "null")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def create(self, path, body):
        status, answer = self.call("POST", path, body)
        if status not in (200, 201):
            raise Failed(f"POST {path}: {status} {answer}")
        return answer

    def post(self, text, query=""):
        """Creates every object of a YAML text, which the server reads; (status, answer) of each, by kind."""
        found = {}
        for document in re.split(r"^---\n", text, flags=re.MULTILINE):
            if item := yaml.safe_load(document):
                found.setdefault(item["kind"], []).append(self.call("POST", place(item) + query, document, kind="application/yaml"))
        return found

    def create_file(self, path, old="", new=""):
        """Every object of a YAML file, with `new` in the place of `old`."""
        with open(path) as file:
            answers = self.post(file.read().replace(old, new))
        refused = [answer for each in answers.values() for status, answer in each if status != 201]
        if refused:
            raise Failed(f"{path}: {refused[0]}")

    def node(self, name=NODE):
        status, node = self.call("GET", f"/api/v1/nodes/{name}")
        return node if status == 200 else {}

    def ready(self, name=NODE):
        return any(c["type"] == "Ready" and c["status"] == "True" for c in self.node(name).get("status", {}).get("conditions", []))

    def amounts(self, resource="nvidia.com/gpu", node=NODE):
        """(capacity, allocatable) as the cluster sees them, as numbers; None when the node has none."""
        status = self.node(node).get("status", {})
        return tuple(int(status[key][resource]) if resource in status.get(key, {}) else None for key in ("capacity", "allocatable"))

    def pods(self, selector=""):
        status, listed = self.call("GET", "/api/v1/namespaces/default/pods" + (f"?labelSelector={selector}" if selector else ""))
        return listed["items"] if status == 200 else []

    def pod(self, name):
        return next((pod for pod in self.pods() if pod["metadata"]["name"] == name), None)

    def add(self, pod):
        return self.create("/api/v1/namespaces/default/pods", pod)

    def remove(self, name):
        self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        until(f"pod {name} to be gone", lambda: self.pod(name) is None)

    def until_phase(self, name, phase, seconds=120):
        return until(f"pod {name} to be {phase}", lambda: (p := self.pod(name)) and p["status"].get("phase") == phase and p, seconds)
