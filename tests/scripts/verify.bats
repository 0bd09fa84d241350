#!/usr/bin/env bats
# scripts/verify-mps-setup.sh: by the program where it is installed, otherwise in the agent's pod.
load lib

setup() { common_setup; export TRANCHE=/nowhere/tranche; }
verify() { run "$source/scripts/verify-mps-setup.sh" "$@"; }

@test "in the agent's pod, whose exit status is ours" {
  AGENT_POD=agent-x verify n1 --json
  ended 0
  called 'kubectl exec -n tranche agent-x -- tranche verify --local --json'
  AGENT_POD=agent-x EXEC_STATUS=1 verify n1 --deep
  ended 1
}

@test "no agent on that node" {
  verify n1
  ended 2
  said 'no node agent runs on n1'
}

@test "without a node" {
  verify
  ended 2
  said 'usage'
  verify --deep
  ended 2
}

@test "by the program where it is installed, but --deep in the pod" {
  printf '#!/bin/sh\necho ran "$@"\n' >"$BATS_TEST_TMPDIR/tranche" && chmod +x "$BATS_TEST_TMPDIR/tranche"
  TRANCHE=$BATS_TEST_TMPDIR/tranche verify n1 --json
  ended 0
  said 'ran verify n1 --json'
  TRANCHE_NAMESPACE=gpu TRANCHE=$BATS_TEST_TMPDIR/tranche verify n1 --json
  said 'ran verify n1 --namespace gpu --json'
  TRANCHE=$BATS_TEST_TMPDIR/tranche AGENT_POD=agent-x verify n1 --deep
  called 'kubectl exec -n tranche agent-x -- tranche verify --local --deep'
}
