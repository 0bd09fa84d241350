"""A network for pods that have one of their own: a cable from each pod to the node, and an address that the node knows the way to.
A CNI plugin of a few lines, since the usual ones are packages of their own. Most scenarios' pods use the node's network."""

NETWORK = '{"cniVersion": "1.0.0", "name": "point", "plugins": [{"type": "point"}]}'
PLUGIN = '''#!/bin/bash
set -eu
cable=pod$(printf %s "${CNI_CONTAINERID:-}" | cut -c1-8)
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}' ;;
  ADD)
    exec 9>>/run/point.last
    flock 9
    last=$(tail -n 1 /run/point.last)
    address=@PODS@.$(( (${last:-1} + 1) / 250 )).$(( (${last:-1} + 1) % 250 + 2 ))
    echo $(( ${last:-1} + 1 )) >>/run/point.last
    exec 9>&-
    pod() { nsenter --net="$CNI_NETNS" ip "$@"; }
    {
      pod link add "$CNI_IFNAME" type veth peer name "$cable" netns 1
      ip link set "$cable" up
      ip addr add @PODS@.0.1/32 dev "$cable"
      ip route add "$address/32" dev "$cable"
      pod addr add "$address/32" dev "$CNI_IFNAME"
      pod link set "$CNI_IFNAME" up
      pod route add @PODS@.0.1 dev "$CNI_IFNAME" scope link
      pod route add default via @PODS@.0.1
    } >&2
    printf '{"cniVersion": "1.0.0", "interfaces": [{"name": "%s", "sandbox": "%s"}], "ips": [{"address": "%s/32", "interface": 0}]}\\n' "$CNI_IFNAME" "$CNI_NETNS" "$address" ;;
  DEL) ip link del "$cable" 2>/dev/null || true ;;
esac
'''


def plugin(identity):
    """The plugin's script, which gives addresses of that node."""
    return PLUGIN.replace("@PODS@", identity.pods)
