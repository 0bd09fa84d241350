"""No program waits for anyone: the network holds idle connections, the readers of both logs do not read and then go, another
program has the port of the pages, tranche mps hangs. Probes are answered, the node serves, and what is wrong is reported."""

import os, re, signal, socket, subprocess, sys, threading, time, urllib.request

from bed import PATIENCE, descriptors, line_of, main, wait_for


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


PORTS = {name: free_port() for name in ("node", "mps")}


def page(name, path, seconds=PATIENCE):
    """(status, body) of a page; status 0 when there is no answer in time."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORTS[name]}{path}", timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Idle:
    """Clients that connect, say nothing, and connect again when they are cut off."""

    def __init__(self, port, count):
        self.stop, self.opened = False, 0
        self.threads = [threading.Thread(target=self.hold, args=(port,), daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def hold(self, port):
        while not self.stop:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
                    self.opened += 1
                    connection.recv(1)
            except OSError:
                time.sleep(0.01)


def idle_connections(bed, checks):
    attackers = [Idle(port, 40) for port in PORTS.values()]
    wait_for(lambda: all(a.opened >= 40 for a in attackers))
    for name in PORTS:
        answers = [page(name, path)[0] for path in ("/healthz", "/readyz", "/metrics") for _ in range(5)]
        checks.check(f"{name}: pages are answered beside 40 idle connections", answers == [200] * 15, answers)
        checks.check(f"{name}: connections are bounded", descriptors(bed.pid(name)) < 150, descriptors(bed.pid(name)))
    for attacker in attackers:
        attacker.stop = True
    shown = page("node", "/status")[1]
    checks.check("the network sees no process ids, container ids and pod UIDs", shown and not re.search('"(pid|processes|podUid|containerId)"', shown))
    checks.check("the node's own socket shows them", '"pid"' in line_of(bed.path("run/node.sock"), "status"))


def restarted_with_a_pipe(bed, name):
    """The program again, its standard error a pipe; the end to read from."""
    bed.end(name)
    reader, writer = os.pipe()
    bed.parts[name] = subprocess.Popen(bed.parts[name].args, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=bed.machine.env)
    os.close(writer)
    os.set_blocking(reader, False)
    return reader


def read_all(reader):
    text = b""
    try:
        while piece := os.read(reader, 1 << 20):
            text += piece
    except BlockingIOError:
        pass
    return text.decode()


def stalled_log(bed, checks, name):
    reader = restarted_with_a_pipe(bed, name)
    checks.check(f"{name}: serves again", bed.all_healthy())
    read_all(reader)
    sock = bed.path({"node": "run/node.sock", "mps": "mps/mps.sock"}[name])
    tenant = bed.tenant(f"stall-{name}")
    answered, edits, end = True, 0, time.monotonic() + PATIENCE
    # Each edit of the configuration is a long line of both programs' logs; a pipe holds 64 KiB, the program 256 KiB.
    while answered and "log_lines_dropped_total 0\n" in page(name, "/metrics")[1] and time.monotonic() < end:
        for _ in range(20):
            edits += 1
            bed.configure(f"{bed.CONFIG}# {edits}\n")
            bed.parts[name].send_signal(signal.SIGHUP)
            answered = answered and line_of(sock, "status")
    checks.check(f"{name}: answers while its log is not read", answered)
    checks.check(f"{name}: lines that were dropped are counted", re.search(r"lines_dropped_total [1-9]", page(name, "/metrics")[1]), f"after {edits} edits")
    text = ""

    def reported():
        nonlocal text
        text += read_all(reader)
        return "log.lines_dropped" in text

    checks.check(f"{name}: reports them when the reader reads again", wait_for(reported))
    client = tenant.client()
    checks.check(f"{name}: a client starts", client.ready())
    client.leave()
    os.close(reader)
    bed.parts[name].send_signal(signal.SIGHUP)
    checks.check(f"{name}: lives on without a reader", wait_for(lambda: line_of(sock, "status")) and bed.alive(name))
    tenant.delete()


def hung_mps(bed, checks):
    tenant = bed.tenant("hung")
    client = tenant.client()
    checks.check("a client runs", client.ready())
    bed.parts["mps"].send_signal(signal.SIGSTOP)
    checks.check("a tranche mps that hangs makes its slots unhealthy", wait_for(lambda: bed.healthy() == 0))
    status = bed.status()
    checks.check("and is reported", not status["mps"]["connected"] and "hangs" in status["mps"]["problem"], status["mps"]["problem"])
    checks.check("what needs it is reported as not enforced", any("tranche mps does not answer" in text for text in status["guard"]["notInForce"]))
    ready, reason = page("node", "/readyz")
    checks.check("the node agent is not ready, with the reason", ready == 503 and "no slot is healthy: tranche mps does not answer" in reason, f"{ready} {reason}")
    code, text = page("mps", "/healthz", 1)
    checks.check("its own page does not claim that it is well", code != 200, f"{code} {text}")
    checks.check("the client runs on", client.well())
    bed.parts["mps"].send_signal(signal.SIGCONT)
    checks.check("it goes on, and the slots are healthy again", bed.all_healthy())
    checks.check("the node agent is ready again", wait_for(lambda: page("node", "/readyz")[0] == 200))
    client.leave()
    tenant.delete()
    bed.parts["node"].send_signal(signal.SIGSTOP)

    def alive(where):
        return subprocess.run([f"{bed.machine.bin}/tranche", "status", "--alive", "--deadline", "1", "--socket", bed.path(where)], capture_output=True).returncode == 0

    checks.check("a node agent that hangs fails its liveness probe", not alive("run/node.sock"))
    bed.parts["node"].send_signal(signal.SIGCONT)
    checks.check("and passes it when it goes on", wait_for(lambda: alive("run/node.sock")))
    checks.check("as one does that is not there yet", alive("none"))


def taken_port(bed, checks):
    for name in ("mps", "node"):
        bed.end(name)
        other = socket.create_server(("127.0.0.1", PORTS[name]))
        bed.start(name)
        checks.check(f"{name}: serves although its port is taken", bed.all_healthy() and bed.alive(name))
        document = bed.mps() if name == "mps" else bed.status()
        checks.check(f"{name}: reports it", "another program has this port" in document["pages"]["problem"], document["pages"]["problem"])
        if name == "mps":
            checks.check("the node agent's metrics report it", wait_for(lambda: "tranche_mps_pages 0\n" in page("node", "/metrics")[1]))
        other.close()
        checks.check(f"{name}: serves its pages once the port is free", wait_for(lambda: page(name, "/healthz")[0] == 200))


def run(bed, checks):
    idle_connections(bed, checks)
    hung_mps(bed, checks)
    for name in ("node", "mps"):
        stalled_log(bed, checks, name)
    taken_port(bed, checks)


if __name__ == "__main__":
    sys.exit(main(run, __doc__, **{f"more_{name}": ("--listen", f"127.0.0.1:{port}") for name, port in PORTS.items()}))
