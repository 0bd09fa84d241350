"""The real kubectl, as a person would call it, on the cluster of the test; and what a person runs beside it."""

import os
import shutil

from .programs import run


def find(name, binaries, build):
    """Where the program is, or None: beside the other programs, where build-programs puts it, named by a variable, or installed."""
    named = os.environ.get(f"TRANCHE_{name.upper()}", "")
    paths = (f"{binaries}/{name}", f"{build}/kubernetes/{name}", named, shutil.which(name) or "")
    return next((path for path in paths if os.access(path, os.X_OK)), None)


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
