"""What asks a grant's drain socket, and when. Where the endpoint has a real socket, which answers only to its container, the
same is asked of `tranche mps` for the grant, and its answer is given back; where it has none, questions are answered as done."""

import glob
import json
import os
import socket
import threading
import time

DOORS = "/run/nvidia/mps/pools/*/endpoints"
DONE = b'{"ok":true,"clients":[],"tookMs":0}\n'


def endpoint_of(tranche, pod):
    """The endpoint's folder on the node, by the agent's word who holds it."""
    for grant in tranche.status().get("grants", []):
        if grant["pod"] == pod and grant["grant"]:
            return next(iter(glob.glob(f"{DOORS}/{grant['grant']}")), None)
    return None


class Recorder:
    """Stands at one endpoint's drain socket; `mute` takes questions and never answers."""

    def __init__(self, endpoint, mute=False):
        self.path, self.mute = f"{endpoint}/drain", mute
        self.behind = f"{self.path}.real"
        self.asked, self.ended = [], []  # when a question came, when its answer left
        self.answers = []
        self.real = os.path.exists(self.path)
        if self.real:
            os.rename(self.path, self.behind)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(16)
        self.kept = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client):
        client.makefile("rb").readline()
        self.asked.append(time.time())
        if self.mute:
            self.kept.append(client)
            return
        answer = self._hand_on() if self.real else DONE
        self.ended.append(time.time())
        self.answers.append(answer)
        client.sendall(answer)
        client.close()

    def _hand_on(self):
        pool, _, grant = self.path.split("/")[-4:-1]
        with socket.socket(socket.AF_UNIX) as mps:
            mps.connect("/run/nvidia/mps/mps.sock")
            mps.sendall(json.dumps({"do": "drain", "pool": pool, "grant": grant, "spare": True, "pause": True}).encode() + b"\n")
            return mps.makefile("rb").readline()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        if self.real:
            os.rename(self.behind, self.path)
        elif os.path.exists(self.path):
            os.unlink(self.path)
