"""One grep for a grant's id in the logs of both programs shows what became of it, from Allocate to the end of its pod: which container held
it, with which limits, what the guard did and why; and no line is about the container without the id."""

import os, re, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abuse"))
from bed import main, wait_for  # noqa: E402

STORY = ["endpoint.limits", "grant.given", "grant.held", "guard.stop", "clients.terminate", "guard.act", "grant.ended"]


def lines(bed, part=""):
    """Of both programs, by time."""
    both = bed.log("mps").splitlines() + bed.log("node").splitlines()
    return sorted((line for line in both if part in line), key=lambda line: line[:12])


def events(found):
    return [re.match(r"\S+ \w+ +([\w.]+)", line).group(1) for line in found]


def run(bed, checks):
    # Promise: log: One grep for a grant's id shows its life, from Allocate to the end of its pod.
    two = "sim-cuda --allocate 30GiB --hold & sim-cuda --allocate 30GiB --hold & wait"
    bed.tenant("neighbour", 1)
    greedy = bed.tenant("greedy", 1, command=("sh", "-c", two))
    checks.check("the guard ends a process of a container that holds too much", wait_for(lambda: "guard.act" in bed.log("node")))
    wait_for(lambda: len(bed.status()["grants"]) == 2)
    grant = next(g for g in bed.status()["grants"] if g["pod"] == "greedy")
    ended = re.search(r"guard\.act .* pid=(\d+)", bed.log("node")).group(1)
    greedy.delete()
    checks.check("its end is in the log", wait_for(lambda: bed.status() and f"grant.ended  grant={grant['grant']}" in bed.log("node")))
    story = lines(bed, grant["grant"])
    at = [events(story).index(event) if event in events(story) else -1 for event in STORY]
    checks.check("its id is in each step of its story, in the logs of both programs", -1 not in at, [event for event, place in zip(STORY, at) if place < 0])
    checks.check("the story begins with the grant and ends with it", {"endpoint.limits", "grant.given"} == set(events(story)[:2]) and events(story)[-1] == "grant.ended", events(story))
    names = 'k8s.namespace.name=default k8s.pod.name=greedy k8s.container.name=main k8s.pod.uid=""'
    checks.check("the container is named as OpenTelemetry names it", all(any(event in line and names in line for line in story) for event in ("grant.held", "grant.ended")), story[-1:])
    about = [r"default/greedy\b", r"k8s\.pod\.name=greedy\b", re.escape(grant["slots"][0]) + r"(?!\d)", rf"\b(pid|culprit_pid)={ended}\b"]
    without = [line for line in lines(bed) if grant["grant"] not in line and any(re.search(pattern, line) for pattern in about)]
    checks.check("no line is about the container without the id", not without, without[:2])
    checks.check("the neighbour's id is a different one", "neighbour" not in " ".join(line for line in story if "guard.act" not in line))


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
