"""The real Helm, as a person would call it, on the cluster of the test."""

import json
import os
import shutil

from .programs import run, write

CHART = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../deploy/helm/tranche"))


def find(binaries, build):
    """Where Helm is, or None: beside the other programs, where build-programs puts it, or installed."""
    for path in (f"{binaries}/helm", f"{build}/kubernetes/helm", os.environ.get("TRANCHE_HELM", ""), shutil.which("helm") or ""):
        if path and os.access(path, os.X_OK):
            return path
    return None


class Helm:
    def __init__(self, program, machine, kubeconfig):
        self.program, self.machine = program, machine
        home = machine.path("helm")
        self.env = {"KUBECONFIG": kubeconfig, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home, "HOME": home, "PATH": os.environ["PATH"]}

    def __call__(self, verb, *words, values=None, check=True):
        more = []
        if values is not None:
            path = self.machine.path("values.json")
            write(path, json.dumps(values))
            more = ["-f", path]
        return run(self.program, verb, "tranche", *([CHART] if verb in ("install", "upgrade", "template") else []), "-n", "tranche", *more, *words, check=check, env=self.env)
