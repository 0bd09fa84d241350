#!/usr/bin/env python3
"""Takes the place of a program in a document's commands, by the name that it is called by. It runs the real program as far as that
can be run here, and writes down what came of it: one line of JSON in $DOCS_LOG for each call."""

import hashlib, json, os, pickle, re, subprocess, sys

BUILD, SOURCE, NODE = os.environ["DOCS_BUILD"], os.environ["DOCS_SOURCE"], os.environ["DOCS_NODE"]
sys.path.insert(0, f"{SOURCE}/tests/docs")
import rules  # noqa: E402


def done(verdict, detail=""):
    with open(os.environ["DOCS_LOG"], "a") as log:
        log.write(json.dumps({"call": CALL, "verdict": verdict, "detail": detail[-600:]}) + "\n")
    sys.exit(0 if verdict != "wrong" else 1)


def run(*argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, **more)


def once(*argv, **more):
    """The same for what answers the same every time: documents name it often."""
    kept = f"{NODE}/answer-{hashlib.sha1(repr(argv).encode()).hexdigest()}"
    if not os.path.exists(kept):
        came = run(*argv, **more)
        with open(kept, "wb") as file:
            pickle.dump(came, file)
        return came
    with open(kept, "rb") as file:
        return pickle.load(file)


def flags_of(words):
    return [w.split("=")[0] for w in words if re.match(r"^--[a-z]", w)]


def missing_flags(words, text):
    return [f for f in flags_of(words) if not re.search(re.escape(f) + r"(?![\w-])", text)]


def real_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("DOCS_")} | {"PATH": os.environ["DOCS_PATH"]}


def tranche(words):
    program, command = f"{BUILD}/bin/tranche", words[0] if words else ""
    named = command and not command.startswith("-")
    if named and not re.search(rf"^  {re.escape(command)} ", once(program, "--help").stdout, re.M):
        done("wrong", f"there is no `tranche {command}`")
    below = words[1:2] if command == "mig" and len(words) > 1 and not words[1].startswith("-") else []
    help_text = once(program, *([command] if named else []), *below, "--help")
    if "--help-config" in help_text.stdout:
        help_text = once(program, command, "--help-config")
    if gone := missing_flags(words, help_text.stdout):
        done("wrong", f"`tranche {command}` has no {gone}")
    if command not in rules.STATUS or words[-1] in rules.NEEDS_VALUE or command == "mig" and "--inventory" not in words:
        done("checked", "its flags are those of its help")
    more = []
    if command == "status" and "--socket" not in words:
        more = ["--socket", f"{NODE}/run/node.sock"]
    if command in ("verify", "labels", "plan") and not any(w.startswith("--config") for w in words):
        more = ["--config-file", f"{NODE}/config.yaml"]
    if command == "reset" and "--dry-run" not in words:
        done("checked", "its flags are those of its help")
    read = None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    came = run(program, *words, *more, env=real_environment(), input=read)
    sys.stdout.write(came.stdout)
    allowed = rules.STATUS[command]
    if command == "check" and {"--config", "--config-file", "--explain", "--config-reference", "--config-schema"} & set(words) and "--node" not in words:
        allowed = {0}
    if command == "plan" and "--against" not in words:
        allowed = {0}
    if came.returncode not in allowed:
        done("wrong", f"exit status {came.returncode}: {came.stdout[-300:]}{came.stderr}")
    done("run", f"exit status {came.returncode}")


def kubectl(words):
    """The real kubectl with a server that is not there: it gets as far as asking only where its words mean something."""
    real = os.environ.get("DOCS_KUBECTL")
    if not real:
        done("skipped", "no kubectl here")
    if "--context" in words:  # of a kind cluster
        at = words.index("--context")
        words = words[:at] + words[at + 2:]
    if len(words) == 1:  # a word of kubectl's
        done("checked" if once(real, *words, "--help").returncode == 0 else "wrong", "its help")
    inner = words[words.index("--") + 1:] if "--" in words else []
    came = (run if "-f" in words or "-k" in words else once)(real, "--server=http://127.0.0.1:1", "--request-timeout=2s", *words, env=real_environment(), input="")
    said = came.stdout + came.stderr
    if came.returncode != 0 and "refused" not in said:
        done("wrong", said)
    if "logs" in words:
        print(open(f"{NODE}/logs/{'mps' if 'mps' in ' '.join(words) or 'DAEMON' in CALL or 'tranche-node-x' in CALL else 'node'}", errors="replace").read())
    elif "get" in words and "yaml" in words:
        print(open(f"{NODE}/pods.yaml").read())
    elif "describe" in words:
        print("  nvidia.com/gpu: 0\n  nvidia.com/gpu.shared: 8\n")
    elif came.returncode == 0:
        sys.stdout.write(came.stdout)
    if inner and os.path.basename(inner[0]) == "tranche" and not rules.elsewhere(" ".join(inner)):
        tranche(inner[1:])
    done("checked", "kubectl takes it")


def helm(words):
    """helm install and upgrade as helm template of the same chart with the same values."""
    real = os.environ.get("DOCS_HELM")
    if not real:
        done("skipped", "no helm here")
    if len(words) == 1:
        done("checked" if once(real, *words, *(["x"] if words[0] == "-n" else []), "--help").returncode == 0 else "wrong", "its help")
    if not words or words[0] not in ("install", "upgrade", "template", "lint"):
        done("wrong", "only install, upgrade, template and lint of our chart are known here")
    if len(words) > 1 and all(word.startswith("-") for word in words[1:]):  # named with a flag, and no chart
        gone = missing_flags(words, once(real, words[0], "--help").stdout)
        done("wrong" if gone else "checked", f"helm {words[0]} has no {gone}")
    rest, skip = [], False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("--timeout", "--version"):
            skip = True
        elif word not in ("--wait", "--wait-for-jobs", "--reuse-values", "-i", "--install", "--create-namespace", "--atomic"):
            rest.append(word)
    values = ["--set", "image.repository=registry.example/tranche"] if "--reuse-values" in words else []
    if "reset.enabled=true" in words:  # the chart looks for nodes in the cluster
        values += ["--set", "reset.nodes={n1}"]
    came = run(real, words[0] if words[0] == "lint" else "template", *rest, *values, env=real_environment() | {"HOME": NODE})
    if came.returncode != 0:
        done("wrong", came.stdout[-200:] + came.stderr)
    done("run", "rendered by Helm")


def ctest(words):
    came = run("ctest", "-N", "--test-dir", BUILD, *[w for i, w in enumerate(words) if w != "--test-dir" and words[i - 1:i] != ["--test-dir"]], env=real_environment())
    found = re.search(r"Total Tests: (\d+)", came.stdout)
    done("run" if found and int(found.group(1)) > 0 else "wrong", came.stdout[-200:] + came.stderr)


def dev(words):
    listed = run(f"{SOURCE}/dev", "help").stdout
    command = words[0] if words else "help"
    if command == "help":
        sys.stdout.write(listed)
        done("run")
    if not re.search(rf"^\./dev .*\b{re.escape(command)}\b", listed, re.M):
        done("wrong", f"./dev has no {command}")
    if command != "demo":
        done("wrong", "only help and demo are run here")
    came = once(f"{BUILD}/bin/tranche", "demo", "--once", *[w for w in words[1:] if w != "--once"], env=real_environment())
    sys.stdout.write(came.stdout)
    done("run" if came.returncode == 0 else "wrong", came.stderr)


def grep(words):
    came = run("/bin/grep", *words, input=sys.stdin.read())
    sys.stdout.write(came.stdout)
    done("run" if came.returncode == 0 else "wrong", "found" if came.returncode == 0 else f"nothing fits: grep {words}")


NAME = os.path.basename(sys.argv[0])
CALL = " ".join([NAME, *sys.argv[1:]])
KNOWN = {"tranche": tranche, "kubectl": kubectl, "helm": helm, "ctest": ctest, "dev": dev, "grep": grep}
if NAME in KNOWN:
    KNOWN[NAME](sys.argv[1:])
done("wrong", f"{NAME} has neither a rule nor a place where it is run (tests/docs/rules.py)")
