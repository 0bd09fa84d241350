"""Processes of the test: started with a log file each, stopped in the reverse order. Whatever is left ends with the
process namespace that everything runs in."""

import os
import signal
import subprocess

from .report import Failed


class Program:
    def __init__(self, name, argv, log, env=None, cwd=None):
        self.name, self.log = name, log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                            env=env, cwd=cwd, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process.poll() is None

    def stop(self, number=signal.SIGTERM, seconds=120):
        if self.running():
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"{self.name} did not stop within {seconds} s of signal {number}") from None

    def tail(self, lines=25):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])


def run(*argv, check=True, **options):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, **options)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def write(path, text, mode=None):
    """Replaces the file as a whole, by way of a hidden name, which kubelet does not take for a manifest."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    new = os.path.join(folder, f".{name}.new")
    with open(new, "w") as file:
        file.write(text)
    if mode is not None:
        os.chmod(new, mode)
    os.rename(new, path)
