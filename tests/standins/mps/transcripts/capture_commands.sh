#!/bin/bash
# Captures what the real nvidia-cuda-mps-control answers, for the stand-in to repeat. Run it as root on a machine with
# one NVIDIA GPU; changes no setting of the GPU. Writes one transcript to stdout: every command, its exit status, what it
# printed on stdout and (marked E:) on stderr.
trap "" PIPE
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/mcap.XXXX); chmod 755 "$work"
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
mkdir "$work/pipe" "$work/log"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
show() { timeout 20 "$@" >"$work/o" 2>"$work/e" </dev/null; rc=$?; echo "\$ $* -> $rc"; sed 's/$/|/' "$work/o"; sed 's/^/E:/;s/$/|/' "$work/e"; }
tell() { printf '%b\n' "$1" | timeout 20 ${2:-} nvidia-cuda-mps-control >"$work/o" 2>"$work/e"; rc=$?
         echo "> $1 -> $rc"; sed 's/$/|/' "$work/o"; sed 's/^/E:/;s/$/|/' "$work/e"; }
declare -A seen
logs() { # In the foreground the daemon logs to its stdout and makes no log files.
  echo "--- $1"
  for f in "$work/fg.out" "$work/log/control.log" "$work/log/server.log"; do [ -f "$f" ] || continue
    echo "-- ${f##*/}"; tail -n +$((${seen[$f]:-0} + 1)) "$f"; seen[$f]=$(wc -l <"$f"); done; }
client() { mkfifo "$work/c$1"; python3 "$here/capture_client.py" <"$work/c$1" >"$work/c$1.out" 2>&1 & pids[$1]=$!; eval "exec 1$1>$work/c$1"
           for i in $(seq 100); do grep -q 'attached\|FAILED' "$work/c$1.out" && break; sleep 0.1; done; cat "$work/c$1.out"; }
say() { echo "client $1 <- $2"; : >"$work/c$1.out"; echo "$2" >&1$1; }
wait_for() { for i in $(seq 80); do grep -q "$2" "$work/c$1.out" && break; sleep 0.1; done; cat "$work/c$1.out"; }
for o in -h -v -S "-p 3" --bogus extra "-f -d" -x; do show nvidia-cuda-mps-control $o; done
tell get_server_list
mkfifo "$work/in"; nvidia-cuda-mps-control -f -multiuser-server <"$work/in" >"$work/fg.out" 2>&1 & daemon=$!; exec 9>"$work/in"
for i in $(seq 50); do [ -S "$work/pipe/control" ] && break; sleep 0.1; done; sleep 0.3
ls -la "$work/pipe" "$work/log"; cat "$work/pipe/nvidia-cuda-mps-control.pid"; echo " pidfile; daemon $daemon"; stat -c '%a %F %n' "$work"/pipe/*
show nvidia-cuda-mps-control -d; show nvidia-cuda-mps-control -f; logs "second start"
U=$(nvidia-smi --query-gpu=uuid --format=csv,noheader)
for c in get_server_list ps "ps -p 1" "" help bogus "bogus 1" get_server_status "get_server_status 1" "get_client_list 1" get_client_list get_device_client_list device_query "device_query --csv" get_default_active_thread_percentage "set_default_active_thread_percentage 12.5" get_default_active_thread_percentage "set_default_active_thread_percentage 0" "set_default_active_thread_percentage 101" "set_default_active_thread_percentage zz" set_default_active_thread_percentage "set_default_active_thread_percentage 33.3333" "set_default_active_thread_percentage 10" "get_default_device_pinned_mem_limit 0" "get_default_device_pinned_mem_limit 7" get_default_device_pinned_mem_limit "set_default_device_pinned_mem_limit 0 1630" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0 4097M" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0 zz" "set_default_device_pinned_mem_limit 0 512K" "set_default_device_pinned_mem_limit 0 5MB" "set_default_device_pinned_mem_limit 0 500M" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 9 2G" "get_default_device_pinned_mem_limit 9" "set_default_device_pinned_mem_limit $U 4096M" "get_default_device_pinned_mem_limit $U" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit GPU-bad 1G" "get_default_device_pinned_mem_limit GPU-bad" get_default_client_priority "set_default_client_priority 1" "set_default_client_priority 7" "set_default_client_priority 0" sm_partition lspart "start_server" "start_server -uid" "get_active_thread_percentage 1" "set_active_thread_percentage 1 50" "get_device_pinned_mem_limit 1 0" "set_device_pinned_mem_limit 1 0 1G" "terminate_client 1 2" "shutdown_server 1"; do tell "$c"; done
cat "$work/fg.out"; logs "no server"
tell "start_server -uid 0"; sleep 1; tell get_server_list; S=$(echo get_server_list | nvidia-cuda-mps-control | head -1); tell "get_server_status $S"; tell "start_server -uid 0"; tell "start_server -uid 1001"
ls -la "$work/pipe"; logs "start_server"
client 1; client 2; logs "two clients"
C=${pids[1]}; D=${pids[2]}
for c in ps "ps -p $S" "ps -p $C" "get_client_list $S" get_device_client_list "get_device_client_list $S" device_query "device_query --csv" "device_query $S" "device_query $S --csv" "get_active_thread_percentage $S" "set_active_thread_percentage $S 50" "set_active_thread_percentage $S 0" "get_device_pinned_mem_limit $S 0" "get_device_pinned_mem_limit $S $U" "set_device_pinned_mem_limit $S 0 100G" "get_device_pinned_mem_limit $S 0" "get_device_pinned_mem_limit $S $U" "get_server_status $S\nget_server_list\nget_default_active_thread_percentage" "terminate_client $S 1"; do tell "$c"; done
logs "commands with server"
kill $(jobs -p) 2>/dev/null; rm -rf "$work"
