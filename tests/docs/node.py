"""A node for documents' commands: the real programs over the stand-ins of driver, MPS daemon and kubelet, in a scratch folder."""

import json, os, shutil, subprocess, sys, tempfile, time

CONFIG = "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
OTHER = CONFIG.replace("replicas: 4", "replicas: 10")
POD = """apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: busybox, command: [sleep, "86400"], resources: {limits: {nvidia.com/gpu.shared: 1}}}
"""


class Node:
    def __init__(self, build):
        self.build, self.standins = build, f"{build}/standins"
        self.dir = tempfile.mkdtemp(prefix="docs.", dir="/tmp")
        for name in ("plugins", "run", "mps", "logs", "driver", "sim", "cdi", "programs"):
            os.mkdir(f"{self.dir}/{name}")
        for name, text in {"config.yaml": CONFIG, "other.yaml": OTHER, "pods.yaml": POD, "sim/node.yaml": "gpus: {profile: H200, count: 2}\n"}.items():
            with open(f"{self.dir}/{name}", "w") as file:
                file.write(text)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "TRANCHE_", "NVIDIA_", "KUBE"))}
        self.env = {**kept, "TRANCHE_SIM_NODE": f"{self.dir}/sim", "LD_LIBRARY_PATH": self.standins,
                    "PATH": f"{self.standins}:/usr/sbin:/usr/bin:/sbin:/bin", "MPS_ROOT": f"{self.dir}/mps",
                    "TRANCHE_RUN_DIR": f"{self.dir}/run", "TRANCHE_PLUGIN_DIR": f"{self.dir}/plugins", "TRANCHE_CDI_ROOT": f"{self.dir}/cdi",
                    "TRANCHE_POD_RESOURCES_SOCKET": f"{self.dir}/run/pr.sock",
                    "CONTAINER_DRIVER_ROOT": f"{self.dir}/driver", "TRANCHE_LOG_FORMAT": "text", "TRANCHE_DAEMON_CGROUP": "none"}
        self.parts = []

    def start(self):
        words = ["--config-file", f"{self.dir}/config.yaml"]
        self._start("kubelet", f"{self.standins}/sim-kubelet", "--plugin-dir", f"{self.dir}/plugins", "--pod-resources-socket", f"{self.dir}/run/pr.sock",
                    "--state-file", f"{self.dir}/run/kubelet.json", "--pods", f"{self.dir}/pods.yaml", "--grace", "1")
        self._start("mps", f"{self.build}/bin/tranche", "mps", *words)
        self._start("node", f"{self.build}/bin/tranche", "node", *words)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._held() == 1:
                return self
            time.sleep(0.05)
        for name in ("kubelet", "mps", "node"):
            with open(f"{self.dir}/logs/{name}", errors="replace") as file:
                print(f"---- {name}\n{file.read()[-3000:]}", file=sys.stderr)
        self.stop()
        raise RuntimeError("the simulated node does not serve its pod within 60 s")

    def _start(self, name, *argv):
        with open(f"{self.dir}/logs/{name}", "w") as log:
            self.parts.append(subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT))

    def _held(self):
        done = subprocess.run([f"{self.build}/bin/tranche", "status", "--socket", f"{self.dir}/run/node.sock", "--json"], env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            return 0
        status = json.loads(done.stdout)
        return len(status["grants"]) if all(r["healthy"] == r["slots"] for r in status["resources"]) else 0

    def stop(self):
        for part in reversed(self.parts):
            part.terminate()
        for part in self.parts:
            try:
                part.wait(60)
            except subprocess.TimeoutExpired:
                part.kill()
                part.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
