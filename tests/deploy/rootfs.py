"""Programs of the image compat, unpacked into a folder, each in namespaces of its own with that folder as root: what a container
runtime does, as far as it matters here. As this file's own program (--inside) it is the first process there."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox"
IMAGE = {"NVIDIA_DISABLE_REQUIRE": "true", "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility", "PATH": PATH}
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind=None, flags=0):
    if libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {source} on {target}")


def own_proc(root, modules):
    """A /proc that says which modules are loaded, also on a kernel that has none; the rest leads to the real one."""
    os.makedirs(f"{root}/real-proc", exist_ok=True)
    mount("proc", f"{root}/real-proc", "proc")
    mount("tmpfs", f"{root}/proc", "tmpfs")
    for name in os.listdir(f"{root}/real-proc"):
        if name != "modules":
            os.symlink(f"/real-proc/{name}", f"{root}/proc/{name}")
    with open(f"{root}/proc/modules", "w") as file:
        file.write("".join(f"{module} 1 0 - Live 0x0\n" for module in modules))


def within(root, path):
    """Where a path leads when `root` is the root: its links are followed there, as a container runtime does."""
    at, parts = "", [part for part in path.split("/") if part]
    while parts:
        part = parts.pop(0)
        if os.path.islink(f"{root}{at}/{part}"):
            target = os.readlink(f"{root}{at}/{part}")
            parts = [*[word for word in target.split("/") if word], *parts]
            at = "" if target.startswith("/") else at
        elif part == "..":
            at = os.path.dirname(at)
        else:
            at = f"{at}/{part}"
    return root + at


def inside(job):
    root = job["root"]
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount(root, root, flags=MS_BIND | MS_REC)
    if job["modules"]:
        own_proc(root, job["modules"])
    elif job["proc"]:
        mount("proc", f"{root}/proc", "proc")
    for source, target, options in job["binds"]:
        place = within(root, target)
        if os.path.isdir(source):
            os.makedirs(place, exist_ok=True)
        elif not os.path.exists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w"):
                pass
        mount(source, place, flags=MS_BIND | MS_REC)
        if "ro" in options:
            mount("none", place, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    if job["readonly"]:
        mount("none", root, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    os.chroot(root)
    os.chdir("/")
    if not job["capable"]:
        for number in range(64):  # the bounding set, then the process's own
            libc.prctl(24, number, 0, 0, 0)
        header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if libc.capset(header, data) != 0:
            raise OSError(ctypes.get_errno(), "capset")
    os.execvpe(job["argv"][0], job["argv"], job["env"])


PATIENCE = 60  # seconds for what an idle machine has within three


class Running:
    def __init__(self, process, log):
        self.process, self.log = process, log

    def pid(self):
        """Of the first process inside, as seen from here."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
                return int(file.read().split()[0])
        except (OSError, IndexError):
            return None

    def said(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def until_says(self, text):
        return until(lambda: text in self.said()) or self._give_up(text)

    def _give_up(self, text):
        raise AssertionError(f"did not say {text!r}; it said:\n{self.said()[-3000:]}")

    def event(self, name):
        """The first line of its log with that event."""
        for line in self.said().splitlines():
            if f'"event":"{name}"' in line:
                return json.loads(line)
        return None

    def send(self, number):
        os.kill(self.pid(), number)

    def end(self, number=signal.SIGTERM):
        """Its exit status."""
        self.send(number)
        return self.wait()

    def wait(self):
        return self.process.wait(PATIENCE)


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Rootfs:
    """A copy of the image's files under `scratch`; they are made once in the folder above."""

    def __init__(self, source, build, scratch):
        self.scratch, self.root, self.count, self.all = scratch, f"{scratch}/root", 0, []
        self.build = build
        made = f"{os.path.dirname(scratch)}/made"
        if not os.path.isdir(made):
            subprocess.run([f"{source}/deploy/image/build", "--compat", "--programs", f"{build}/bin", "--rootfs", made], check=True, capture_output=True)
        shutil.copytree(made, self.root, symlinks=True)

    def why_not(self):
        """Why programs cannot be run in it here; "" = they can."""
        done = self.start(["/busybox/true"])
        return "" if done.wait() == 0 else f"no namespaces here: {done.said().strip()[-200:]}"

    def start(self, argv, env=None, binds=(), readonly=False, capable=True, own_processes=True, image_env=True, modules=()):
        self.count += 1
        log = f"{self.scratch}/log-{self.count}"
        job = {"root": self.root, "argv": argv, "env": {**(IMAGE if image_env else {"PATH": PATH}), **(env or {})}, "binds": [[source, target, more] for source, target, more in binds],
               "readonly": readonly, "capable": capable, "proc": own_processes, "modules": list(modules)}
        words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--net", *(["--pid"] if own_processes else []), "--fork", "--kill-child"]
        with open(log, "wb") as out:
            process = subprocess.Popen([*words, sys.executable, "-B", __file__, "--inside", json.dumps(job)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.all.append(Running(process, log))
        return self.all[-1]

    def stop_all(self):
        for running in self.all:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()

    def put(self, name, text, mode=0o644):
        path = f"{self.scratch}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def folder(self, name):
        path = f"{self.scratch}/{name}"
        os.makedirs(path, exist_ok=True)
        return path

    def driver(self, folder, *names):
        """Stand-ins of the driver in a folder; what they need beside the image's own libraries goes to the image's."""
        os.makedirs(folder, exist_ok=True)
        for name in (name for name in names if not os.path.exists(f"{folder}/{name}")):
            shutil.copy(f"{self.build}/standins/{name}", folder)
            listed = subprocess.run(["ldd", f"{self.build}/standins/{name}"], capture_output=True, text=True, check=True).stdout
            for library in (words[2] for words in map(str.split, listed.splitlines()) if len(words) > 2 and words[2].startswith("/")):
                place = f"{self.root}/usr/lib/x86_64-linux-gnu/{os.path.basename(library)}"
                if not os.path.exists(place):
                    shutil.copy(os.path.realpath(library), place)


if __name__ == "__main__":
    inside(json.loads(sys.argv[2]))
