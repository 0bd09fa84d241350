"""The rows of endings.py: each answers {"holds": True, False or None (only measured), "lines": [(what, measured)…]} and its tries."""

import concurrent.futures, dataclasses, os, random, re, signal, threading, time

from deaths import ControlGroup
from endings_bed import DYING, Sight, delete_pod, gone, median_worst, p99, since
from gpu_bed import PATIENCE, Program, signal_to, wait_for

NEIGHBOURS = {"serve": ("serve",), "train": ("train",), "elementwise": ("elementwise", "fresh=1")}
KINDS = {  # the commands for tenants.py; {n}: products whose time at the share's SMs is that of 8192³ at a quarter of the GPU
    "products": ("products", "queue=4", "n={n}"), "deep": ("products", "queue=256", "n={n}"), "fp8": ("fp8",), "convolutions": ("convolutions",),
    "triton": ("triton", "ms=20"), "jax": ("jax",), "fp32": ("fp32", "n={n}"), "serve": ("serve",), "train": ("train", "width=4096")}
SIMULATED = {"deep": ("spin", "ms=30", "queue=50"), "serve": ("steps",)}  # others: a few long kernels
PATIENCE_OF_KEEPER = 6  # seconds from a death to the close of what the keeper holds, with some for the close
COMPLAINT = re.compile(r"error|out.of.memory", re.IGNORECASE)


@dataclasses.dataclass
class Spec:
    kind: str
    words: tuple
    shape: str = "first"
    env: dict = None
    may_refuse: bool = False  # the program may be refused at its start, which is a result
    number: int = 0


class Bed:
    """The node, its neighbours, and tries that are prepared side by side and carried out in turn."""

    def __init__(self, machine, args, node, neighbours, deadline):
        self.machine, self.args, self.node, self.neighbours = machine, args, node, neighbours
        self.until = self.deadline = deadline
        self.turn, self.lock, self.count = threading.Semaphore(args.at_once), threading.RLock(), 0
        self.idle, self.last, self.spans = set(), None, []
        device = node.status()["devices"][0]
        self.slot_mib, sms = args.victim_slots * device["slotMemoryMiB"], device["slotSms"] or machine.sms // args.gpu_slots
        # Work grows with n³; in multiples of 256, rounded down.
        self.n = max(1024, int(8192 * (args.victim_slots * sms / (machine.sms / 4)) ** (1 / 3)) // 256 * 256)
        time.sleep(0.5)
        begin = time.monotonic()
        time.sleep(1 if machine.simulated else 4)
        self.calm = self.neighbours.steps([(begin, time.monotonic())])

    def words(self, kind):
        if self.machine.simulated:
            return SIMULATED.get(kind, ("spin", "ms=150", "queue=4"))
        return tuple(word.format(n=self.n) for word in KINDS[kind])

    def saver(self, path, slow):
        return ("steps" if self.machine.simulated else "train", f"checkpoint={path}", f"slow={slow}")

    def start(self, spec):
        with self.lock:
            self.count += 1
            name = f"v{self.count}-{re.sub('[^a-z0-9]+', '-', spec.kind)}"  # as pods may be named
        box = self.node.contained(name, [*spec.words, "wait=1"], spec.shape, self.args.victim_slots, env=spec.env)
        if box.ready():
            with self.lock:
                self.idle.add(box)
            return box, None
        why = f"{spec.kind} does not start: {box.errors} {''.join(box.stderr)[-300:]}"
        return box, None if spec.may_refuse else why

    def look(self):
        """Counts neighbours that died after the last try, starts them again, and ends victims that were struck with them."""
        with self.lock:
            dead = self.neighbours.new_dead()
            if dead:
                if self.last is not None:
                    self.last["dead"] += dead
                struck, self.idle = self.idle, set()
                for box in struck:
                    box.kill()
            self.neighbours.renew()

    def one(self, spec, act):
        result = {"kind": spec.kind, "shape": spec.shape, "void": "no time left", "dead": []}
        for _ in range(3):
            if time.monotonic() > self.until:
                return result
            box = None
            try:
                box, why = self.start(spec)
                if why is None:
                    with self.turn:
                        why = self.act(box, spec, act, result)
                if why is None:
                    return result
                result["void"] = why
            except Exception as error:  # one try must not take the others along
                result["void"] = f"{type(error).__name__}: {error}"[:300]
            finally:
                if box is not None:
                    with self.lock:
                        self.idle.discard(box)
                    box.clear()
        return result

    def act(self, box, spec, act, result):
        self.look()
        with self.lock:
            self.idle.discard(box)
        if time.monotonic() > self.until:
            return "no time left"
        if not spec.may_refuse:
            if not box.well() or not box.go():
                return f"was not well before its turn: {box.errors}"
            time.sleep(random.uniform(0.3, 0.7))
            if not box.well():
                return f"was not well while it worked: {box.errors}"
        ready = box.said("ready") or {}
        result.update(queued_ms=ready.get("queued_ms"))
        begin = time.monotonic()
        self.neighbours.witness.seen.append((begin, "try", f"{spec.kind} {box.pid}"))
        result.update(act(box, spec))
        self.spans.append((begin, time.monotonic() + 0.3))
        time.sleep(DYING)
        del result["void"]
        with self.lock:
            self.last = result
        self.look()
        return None

    def tries(self, specs, act):
        """Their results, and how many there should have been."""
        with concurrent.futures.ThreadPoolExecutor(self.args.victims) as workers:
            results = list(workers.map(lambda spec: self.one(spec, act), specs))
        time.sleep(PATIENCE_OF_KEEPER + DYING)
        self.look()
        return results


def by_kind(results):
    kinds = {}
    for result in results:
        kinds.setdefault(result["kind"], []).append(result)
    return kinds


def summary(bed, results, good=lambda result: True):
    """Lines of a row, one a kind, and whether it holds: no neighbour dead, every try that was made as it should be, at least one made."""
    lines, holds = [], True
    for kind, tries in by_kind(results).items():
        done = [r for r in tries if "void" not in r]
        dead, of = sum(len(r["dead"]) for r in done), len(done) * len(bed.neighbours.kinds)
        odd = [r for r in done if not good(r)]
        void = [r["void"] for r in tries if "void" in r and r["void"] != "no time left"]
        by = {who: sum(r.get("by") == who for r in done) for who in dict.fromkeys(r.get("by") for r in done) if who}
        text = f"neighbours dead {dead} of {of}; {len(done)} of {len(tries)} tries"
        for key, words in (("stopped_ms", "stopped after"), ("held_ms", "held"), ("gone_ms", "gone after")):
            if any(r.get(key) is not None for r in done):
                text += f"; {words} {median_worst([r.get(key) for r in done])} ms"
        held = [r["held_ms"] for r in done if r.get("held_ms") is not None]
        text += f" (least held {min(held):.0f})" if held else ""
        text += f"; ended by {', '.join(f'{who} {n}' for who, n in by.items())}" if by else ""
        text += f"; {len(odd)} not as they should be" if odd else ""
        text += f"; {len(void)} void: {void[0][:120]}" if void else ""
        lines.append((kind, text))
        # A budget may leave tries undone; a kind of which none was done proves nothing.
        holds = holds and dead == 0 and not odd and not void and bool(done)
    return {"holds": holds, "lines": lines, "tries": results}


def specs_of(bed, kinds, shapes, repeats):
    """Kind by kind in turn, so that a budget cuts all alike; each with another shape every time."""
    return [Spec(kind, bed.words(kind), shapes[i % len(shapes)], number=i) for i in range(repeats) for kind in kinds]


def delete(bed):
    args = bed.args
    act = lambda box, spec: delete_pod(bed.node, box, args.grace, silent=args.silent)
    results = bed.tries(specs_of(bed, args.kinds, args.shapes, args.repeats), act)
    row = summary(bed, results, lambda r: r["by"] != "the node")
    for shape in args.shapes:
        done = [r for r in results if "void" not in r and r["shape"] == shape]
        if done:
            row["lines"].append((f"shape {shape}", f"{len(done)} tries; neighbours dead {sum(len(r['dead']) for r in done)}; gone after "
                                 f"{median_worst([r['gone_ms'] for r in done])} ms"))
    return row


def checkpoint(bed):
    def act(box, spec):
        result = delete_pod(bed.node, box, 10, silent=bed.args.silent)
        saved = box.said("saved", 0.5) or {}
        path = next(word.split("=", 1)[1] for word in spec.words if word.startswith("checkpoint="))
        result.update(whole=bool(saved.get("whole")) and os.path.exists(path), by="itself" if saved else result["by"])
        if os.path.exists(path):
            os.remove(path)
        return result
    specs = []
    for i in range(bed.args.repeats):
        # At once, and as on a slow disk, within a grace of 10 s.
        specs.append(Spec("checkpoint", bed.saver(bed.node.path(f"checkpoint-{i}"), (0.0, 1.5)[i % 2]), ("first", "init")[i // 2 % 2], number=i))
    row = summary(bed, bed.tries(specs, act), lambda r: r["whole"] and r["by"] == "itself")
    done = [r for r in row["tries"] if "void" not in r]
    row["lines"].insert(0, ("checkpoint complete", f"{sum(r['whole'] for r in done)} of {len(done)}"))
    return row


def force(bed):
    kinds = [k for k in bed.args.kinds if k in ("products", "deep", "convolutions", "serve")] or bed.args.kinds[:1]
    act = lambda box, spec: delete_pod(bed.node, box, 0, force=True, silent=bed.args.silent)
    specs = specs_of(bed, kinds, bed.args.shapes, max(1, bed.args.repeats // len(kinds)))
    return summary(bed, bed.tries(specs, act), lambda r: r["by"] != "the node")


def over(bed):
    name = "hoard" if bed.machine.simulated else "grow"
    most = f"most={3 * bed.slot_mib}" if bed.machine.simulated else f"most={bed.machine.total_mib}"
    lifted = {"set for the container": ((name, most), {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=nonsense"}),
              "set inside the program": ((name, most, "limit=0=nonsense"), None),
              "set inside, with work queued": ((name, most, "limit=0=nonsense", "queue=64"), None)}

    def act(box, spec):
        """What it held over its share, and how long until it was stopped and gone."""
        if not box.said("ready"):
            return {"by": "refused at its start", "refused": box.errors[:1], "stderr": "".join(box.stderr)[-300:]}
        marks, sight = bed.node.marks(), Sight(box)
        box.go()
        wait_for(lambda: gone(box.pid) or box.said("grown"), every=0.005)
        crossed = next((e["at"] for e in box.all_said("held") if e["mib"] > bed.slot_mib), None)
        if crossed is not None:  # the last step may just have been over: the guard looks every 100 ms
            wait_for(lambda: gone(box.pid), every=0.005)
        held = max((e["mib"] for e in box.all_said("held")), default=0)
        sight.end()
        guard = [line for line in bed.node.lines(marks) if line.get("event") == "guard.act" and str(line.get("pid")) == str(box.pid)]
        by = "the node" if gone(box.pid) else "its limit, in time" if crossed is None else "NOBODY"
        stopped = sight.stopped.get(box.pid)
        return {"by": by, "over_mib": max(0, held - bed.slot_mib), "held_mib": held, "guard": guard[:4],
                "stopped_ms": since(stopped, crossed) if crossed else None, "gone_ms": since(sight.gone.get(box.pid), crossed) if crossed else None,
                "held_ms": since(sight.gone.get(box.pid), stopped) if stopped and box.pid in sight.gone else None}

    specs = [Spec(kind, words, env=env, may_refuse=True, number=i) for i in range(max(1, bed.args.repeats // 2)) for kind, (words, env) in lifted.items()]
    row = summary(bed, bed.tries(specs, act), lambda r: r["by"] != "NOBODY")
    for kind, tries in by_kind(row["tries"]).items():
        over_by = [r.get("over_mib") for r in tries if "void" not in r and r.get("over_mib") is not None]
        if over_by:
            row["lines"].append((kind, f"a share of {bed.slot_mib} MiB; held over it: {median_worst(over_by)} MiB"))
    return row


HOW = ("exception", "exit", "os_exit", "segv", "abort", "oom")


def own(bed):
    """Ends that no signal of kubelet announces, with all of a deep queue in flight."""
    def act(box, spec):
        group, sight = None, Sight(box)
        if spec.kind.endswith("oom"):
            group = ControlGroup(1024)
            group.add(box.pid)
        asked = time.monotonic()
        box.io.sendall(b"\n")
        sight.wait_gone(box.pid, asked + PATIENCE)
        sight.end()
        result = {"gone_ms": since(sight.gone.get(box.pid), asked), "by": "itself"}
        if group:
            result["oom"] = group.oom()
            result["by"] = "the OOM killer" if wait_for(lambda: "oom_kill 1" in group.oom(), 1) else "NOBODY"
            group.end()
        return result

    specs = [Spec(f"{kind}: {how}", (*bed.words(kind), f"ends={how}"), number=i) for i in range(bed.args.repeats) for kind in bed.args.kinds for how in HOW]
    return summary(bed, bed.tries(specs, act), lambda r: r["gone_ms"] is not None and r["by"] != "NOBODY")


def killed(bed):
    """SIGKILL of a program, and in the same moment of `tranche mps` or `tranche node`, which is started again 1 s later."""
    alone = threading.Lock()

    def act(box, spec):
        part = spec.kind.split()[-1]
        with alone:
            sight, program = Sight(box), bed.node.parts[part]
            asked = time.monotonic()
            program.kill()
            signal_to(box.pid, signal.SIGKILL)
            program.wait()
            sight.wait_gone(box.pid, asked + PATIENCE)
            sight.end()
            time.sleep(1)
            bed.node.start(part, *program.args)
            back = wait_for(lambda: bed.node.healthy() == bed.node.SLOTS and bed.node.pool())
        return {"gone_ms": since(sight.gone.get(box.pid), asked), "by": "SIGKILL" if back else "NOBODY"}

    specs = [Spec(f"{kind} with {part}", bed.words(kind), number=i) for i in range(bed.args.repeats) for kind in bed.args.kinds for part in ("mps", "node")]
    results = [r for r in bed.tries(specs, act) if "does not run" not in r.get("void", "")]  # refused while the node was away
    return summary(bed, results, lambda r: r["gone_ms"] is not None and r["by"] != "NOBODY")


def again(bed):
    """A program that holds most of its share is killed and started again at once, in the same container. Until the keeper has closed what
    the first one had open, the second one waits."""
    name, most = ("hoard" if bed.machine.simulated else "grow"), f"most={bed.slot_mib * 7 // 10}"
    tenant, results = bed.node.tenant("again", bed.args.victim_slots), []
    start = lambda: Program(bed.machine, tenant.envs, name, most, "step=256", prefix=tenant.enter)
    grown = lambda program: wait_for(lambda: program.process.poll() is not None or program.said("grown"))
    for _ in range(max(1, bed.args.repeats // 4)):
        marks, first = bed.node.marks(), start()
        result = {"kind": "killed and started again", "dead": []}
        if not first.ready(90):
            result["void"] = f"does not start: {first.errors}"
        grown(first)
        first.kill()
        second = start()
        begins = second.ready(90)
        grown(second)
        time.sleep(PATIENCE_OF_KEEPER)
        lives = begins and second.well()
        result.update(by="itself" if lives else "NOBODY", status=second.process.poll(), errors=second.errors[:1], dead=bed.neighbours.new_dead(),
                      guard=[line for line in bed.node.lines(marks) if str(line.get("event")).startswith("guard.")][:6])
        second.kill()
        time.sleep(PATIENCE_OF_KEEPER)
        results.append(result)
    tenant.delete()
    return summary(bed, results, lambda r: r["by"] == "itself" and not r["guard"])


def frameworks(bed):
    def one(of):
        box = bed.node.contained(f"look-{of}", ["look", f"of={of}"], "first", slots=1)
        try:
            looked = box.said("looked", 120) or {"right": False, "why": str(box.errors)[:200]}
            wait_for(lambda: box.closed)
            complaints = [line.strip() for line in box.stderr if COMPLAINT.search(line)]
            given = {k: v for k, v in box.tenant.envs.items() if k.startswith(("XLA_", "JAX_", "PYTORCH_", "TF_"))}
            return {"of": of, **looked, "complaints": complaints[:5], "complained": len(complaints), "granted": given}
        finally:
            box.clear()
    names = ["driver"] if bed.machine.simulated else ["torch", "jax", "cupy", "onnx"]
    with concurrent.futures.ThreadPoolExecutor(bed.args.victims) as workers:
        looks = list(workers.map(one, names))
    lines = []
    for look in looks:
        if look["right"] is None:
            lines.append((look["of"], f"not available: {look.get('why')}"))
            continue
        text = "computes right" if look["right"] else f"DOES NOT COMPUTE: {look.get('why', 'a wrong answer')}"
        text += f"; free {look.get('free_mib')}, total {look.get('total_mib')}, its own limit {look.get('limit_mib')} MiB of a share of {bed.slot_mib}"
        text += f"; the grant sets {look['granted']}" if look["granted"] else ""
        lines.append((look["of"], text + (f"; {look['complained']} complaints: {look['complaints'][0][:120]}" if look["complained"] else "; no complaint")))
    return {"holds": all(look["right"] is not False and not look["complained"] for look in looks), "lines": lines, "looks": looks}


def noise(bed):
    if not bed.spans:
        delete(bed)
    during = bed.neighbours.steps(bed.spans)
    lines = [(name, f"{p99(bed.calm[name])} ms before ({len(bed.calm[name])} steps), {p99(during[name])} ms during {len(bed.spans)} ends ({len(during[name])} steps)")
             for name in bed.neighbours.kinds]
    return {"holds": None, "lines": lines}
