"""Container images made on the spot, without a registry or an engine: a docker-archive of one layer."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile


def libraries_of(program, library_path=""):
    """The shared libraries that the program loads, as paths of this machine."""
    env = dict(os.environ, LD_LIBRARY_PATH=library_path)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, env=env, check=False).stdout
    return sorted(set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.MULTILINE)))


def image_limit():
    """For deploy/image/build: programs that count (scripts/coverage) are larger."""
    return ["--limit", "100000000"] if os.environ.get("TRANCHE_PROFILES") else []


class Image:
    def __init__(self, name, cmd):
        self.name, self.cmd = name, cmd
        self.layer = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.layer, mode="w")
        self.known = set()

    def folder(self, path):
        path = path.strip("/")
        if path in self.known or not path:
            return
        self.folder(os.path.dirname(path))
        self.known.add(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        self.tar.addfile(entry)

    def file(self, path, source, mode=0o755):
        if path.strip("/") in self.known:
            return
        self.folder(os.path.dirname(path))
        self.known.add(path.strip("/"))
        with open(source, "rb") as content:
            data = content.read()
        entry = tarfile.TarInfo(path.strip("/"))
        entry.size, entry.mode = len(data), mode
        self.tar.addfile(entry, io.BytesIO(data))

    def link(self, path, target):
        self.folder(os.path.dirname(path))
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(entry)

    def busybox(self):
        program = shutil.which("busybox")
        self.file("/bin/busybox", program)
        for applet in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if applet != "busybox":
                self.link(f"/bin/{applet}", "busybox")

    def program(self, path, source, library_path=""):
        """The program with every library it loads, at the libraries' own paths."""
        self.file(path, source)
        for library in libraries_of(source, library_path):
            self.file(library, os.path.realpath(library))

    def save(self, path):
        for folder in ("tmp", "run", "etc", "proc", "sys", "dev"):
            self.folder(folder)
        self.tar.close()
        layer = self.layer.getvalue()
        digest = hashlib.sha256(layer).hexdigest()
        config = json.dumps({
            "architecture": "amd64", "os": "linux", "config": {"Cmd": self.cmd, "Env": ["PATH=/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        manifest = json.dumps([{"Config": config_name, "RepoTags": [self.name], "Layers": ["layer.tar"]}]).encode()
        with tarfile.open(path, "w") as archive:
            for name, data in ((config_name, config), ("layer.tar", layer), ("manifest.json", manifest)):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
