#!/usr/bin/env python3
"""Which SM counts of this GPU compute right: `gemm-check` as a client of a plain MPS daemon at every percentage from 1 to 100
that gives another SM count, and an `evidence` entry for data/sm-counts.yaml. Needs root, an idle GPU with MPS, cuBLAS and a build;
--simulated BUILD runs on the stand-ins. Raw results go to $OUT/sm_counts.json (or --out)."""

import sys, time

from gpu_bed import Machine, PlainDaemon, last_json
from rows import parsed, parser, save, title


def spans(counts):
    """[[from, to], …] of runs of counts that follow each other in steps of two."""
    found = []
    for count in sorted(counts):
        if found and count == found[-1][1] + 2:
            found[-1][1] = count
        else:
            found.append([count, count])
    return found


def check(machine, daemon, percentage, types, shapes, deadline):
    """gemm-check's answer as a client with so many percent of the threads."""
    words = [f"{machine.bin}/gemm-check", "--json"]
    shapes = shapes or ("64,48x80x33" if machine.simulated else "")
    for option, value in (("--types", types), ("--shapes", shapes), ("--cublas", machine.cublas)):
        words += [option, value] if value else []
    done = machine.run(*words, env={**daemon.env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}, timeout=deadline)
    report = last_json(done.stdout)
    return {"percentage": percentage, "status": done.returncode, "sms": report.get("sms", {}).get("attribute"), "gemm": report.get("gemm", {}),
            "error": done.stderr[-300:]}


def kind(runs):
    """What is known of a count from all its runs: `mixed` where some runs, or some products of a half-precision type, differ."""
    half = [c for r in runs for c in r["gemm"].get("cases", []) if c["type"] in ("bf16", "fp16", "fp8") and c["outcome"] != "not checked"]
    if not half or any(not r["gemm"].get("checked") for r in runs):
        return "unknown"
    wrong = sum(c["outcome"] == "WRONG" for c in half)
    always = {(c["shape"], c["type"], c["layout"]) for c in half if c["outcome"] == "WRONG"} - \
             {(c["shape"], c["type"], c["layout"]) for c in half if c["outcome"] == "right"}
    return "right" if wrong == 0 else "wrong" if always else "mixed"


def row_of(machine, runs_by_sms, cublas, args):
    lines = [f"  - gpu: {machine.gpu['name']}", f"    driver: {machine.driver()}", f'    cublas: "{cublas}"',
             f"    date: {time.strftime('%Y-%m-%d', time.gmtime())}",
             "    how: >", f"      tests/gpu/sm_counts.py: {args.types} of {args.shapes or 'twelve shapes'}, NN and TN, two draws of inputs, {args.runs} run(s) a count."]
    for name in ("right", "wrong", "mixed"):
        counts = [sms for sms, runs in runs_by_sms.items() if kind(runs) == name]
        if counts:
            lines.append(f"    {name}: {spans(counts)}")
    return "\n".join(lines)


def main():
    made = parser(__doc__)
    made.add_argument("--types", default="bf16,fp16,fp8")
    made.add_argument("--shapes", default="", help="instead of gemm-check's twelve")
    made.add_argument("--runs", type=int, default=1, help="how often each count is tried")
    made.add_argument("--from", dest="first", type=int, default=1)
    made.add_argument("--to", dest="last", type=int, default=100)
    made.add_argument("--seconds", type=float, default=540, help="stop asking after this long; what was measured is printed")
    made.add_argument("--deadline", type=float, default=120, help="seconds for one check")
    args = parsed(made)
    machine, began, runs_by_sms, all_runs = Machine(args), time.monotonic(), {}, []
    daemon = PlainDaemon(machine, limited=False)
    complete = True
    try:
        seen = set()
        for percentage in range(args.first, args.last + 1):
            expected = max(8, 2 * (percentage * machine.sms // 200))  # docs/guide/share-sizes.md; what the client really gets is what counts
            if expected in seen:
                continue
            seen.add(expected)
            for _ in range(args.runs):
                if time.monotonic() - began > args.seconds:
                    complete = False
                    break
                run = check(machine, daemon, percentage, args.types, args.shapes, args.deadline)
                all_runs.append(run)
                if run["sms"]:
                    runs_by_sms.setdefault(run["sms"], []).append(run)
                gemm = run["gemm"]
                print(f"{percentage:3} %  {run['sms']} SMs  right {gemm.get('right', '-')}  wrong {gemm.get('wrong', '-')}  not checked "
                      f"{gemm.get('notChecked', '-')}  {gemm.get('seconds', 0):.1f} s  {gemm.get('reason', run['error'] if run['status'] > 1 else '')}",
                      file=sys.stderr, flush=True)
    finally:
        daemon.stop()
    save(args.out, "sm_counts", {"gpu": machine.gpu, "title": title(machine), "complete": complete, "runs": all_runs})
    machine.clean()
    cublas = next((r["gemm"]["cublas"] for r in all_runs if r["gemm"].get("cublas")), "unknown")
    print(row_of(machine, runs_by_sms, cublas, args))
    unknown = [sms for sms, runs in runs_by_sms.items() if kind(runs) == "unknown"]
    if unknown or not complete:
        print(f"# not measured: {spans(unknown)}" + ("" if complete else "; out of time before the end"))
    return 1 if unknown or not runs_by_sms else 0


if __name__ == "__main__":
    sys.exit(main())
