"""The real kubectl, as a person would call it, on the cluster of the test; and what a person runs beside it."""

import os
import shutil

from .programs import run


def find(binaries, build):
    """Where kubectl is, or None: beside the other programs, where build-programs puts it, or installed."""
    for path in (f"{binaries}/kubectl", f"{build}/kubernetes/kubectl", shutil.which("kubectl") or ""):
        if path and os.access(path, os.X_OK):
            return path
    return None


class Shell:
    """A folder with kubectl and helm first in PATH, and the cluster's kubeconfig."""

    def __init__(self, machine, kubeconfig, **programs):
        folder = machine.path("bin")
        os.makedirs(folder, exist_ok=True)
        for name, path in programs.items():
            if not os.path.exists(f"{folder}/{name}"):
                os.symlink(path, f"{folder}/{name}")
        home = machine.path("home")
        self.env = {"KUBECONFIG": kubeconfig, "HOME": home, "PATH": f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin",
                    "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home}

    def __call__(self, *argv, check=True, env=None, **options):
        return run(*argv, check=check, env={**self.env, **(env or {})}, timeout=options.pop("timeout", 120), **options)

    def kubectl(self, *words, check=True, **options):
        return self("kubectl", *words, check=check, **options)
