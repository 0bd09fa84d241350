# What the tests of the scripts share: stand-ins of the programs that they drive come first in PATH, and keep what they are asked in $CALLS.
common_setup() {
  source=$(readlink -f "$BATS_TEST_DIRNAME/../..")
  build=${TRANCHE_BUILD:-$source/build}
  export CALLS=$BATS_TEST_TMPDIR/calls NODES=$BATS_TEST_TMPDIR/nodes VALUES=$BATS_TEST_TMPDIR/values HOME=$BATS_TEST_TMPDIR
  : >"$CALLS"
  : >"$VALUES"
  PATH=$BATS_TEST_DIRNAME/standins:/usr/bin:/bin
  unset PLUGIN_IMAGE_REPO PLUGIN_IMAGE_TAG IMAGE_PULL_SECRET_NAME ENABLE_MEMORY_LIMIT KUBECONFIG TRANCHE_CHART TRANCHE_NAMESPACE TRANCHE_RELEASE
}
show() { printf 'status %s, said:\n%s\ncalls:\n%s\n' "$status" "$output" "$(cat "$CALLS")"; return 1; }
ended() { [[ $status == "$1" ]] || { echo "status is not $1"; show; }; }
said() { [[ $output == *"$1"* ]] || { echo "does not say '$1'"; show; }; }
called() { grep -qF -- "$1" "$CALLS" || { echo "did not call '$1'"; show; }; }
not_called() { ! grep -qF -- "$1" "$CALLS" || { echo "called '$1'"; show; }; }
value() {  # python expression over v, the values that helm was given
  python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$VALUES" "$1" || { echo "values are not: $1"; cat "$VALUES"; show; }
}
