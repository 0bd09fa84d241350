#!/bin/bash
# capture.sh commands|events|lives|ends: captures what the real nvidia-cuda-mps-control answers, for the stand-in to
# repeat. Run it as root on a machine with one NVIDIA GPU; changes no setting of the GPU. Writes one transcript to
# stdout: every command, its exit status, what it printed on stdout and (marked E:) on stderr. "ends" is the second half
# of "lives" alone.
case ${1-} in commands | events | lives | ends) ;; *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;; esac
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
logs() { # In the foreground the daemon logs to its stdout and makes no log files. Without the lines of every command.
  echo "--- $1"
  for f in "$work/fg.out" "$work/log/control.log" "$work/log/server.log"; do [ -f "$f" ] || continue
    echo "-- ${f##*/}"; tail -n +$((${seen[$f]:-0} + 1)) "$f" | grep -v 'NEW UI$\|UI closed$\|Accepting connection\.\.\.$'; seen[$f]=$(wc -l <"$f"); done; }
client() { mkfifo "$work/c$1"; python3 "$here/capture_client.py" <"$work/c$1" >"$work/c$1.out" 2>&1 & pids[$1]=$!; eval "exec 1$1>$work/c$1"
           for i in $(seq 100); do grep -q 'attached\|FAILED' "$work/c$1.out" && break; sleep 0.1; done; cat "$work/c$1.out"; }
say() { echo "client $1 <- $2"; mark[$1]=$(wc -l <"$work/c$1.out"); echo "$2" >&1$1; }
wait_for() { for i in $(seq 50); do tail -n +$((${mark[$1]} + 1)) "$work/c$1.out" | grep -q "$2" && break; sleep 0.1; done; tail -n +$((${mark[$1]} + 1)) "$work/c$1.out"; }
declare -A mark
U=$(nvidia-smi --query-gpu=uuid --format=csv,noheader)
foreground() { rm -f "$work/in"; mkfifo "$work/in"; : >"$work/fg.out"; seen=(); nvidia-cuda-mps-control -f "$@" <"$work/in" >"$work/fg.out" 2>&1 & daemon=$!; exec 9>"$work/in"; until_answers; }
until_answers() { for i in $(seq 50); do echo get_server_list | nvidia-cuda-mps-control >/dev/null 2>&1 && return; sleep 0.1; done; }
gone() { for i in $(seq 60); do kill -0 $1 2>/dev/null || { echo "pid $1 ($2) gone"; return; }; sleep 0.1; done; echo "pid $1 ($2) STAYS"; }
server() { echo get_server_list | nvidia-cuda-mps-control | head -1; }
as_other() { (timeout 6 setpriv --reuid 1001 --clear-groups python3 "$here/capture_client.py" </dev/null >"$work/other" 2>&1; echo "uid 1001 rc $?" >>"$work/other") & }
lines() { grep -v 'Accepting\|NEW UI\|UI closed\|NEW CLIENT\|worker thread\|valid cred'; }
commands() {
  for o in -h -v -S "-p 3" --bogus extra "-f -d" -x; do show nvidia-cuda-mps-control $o; done
  tell get_server_list
  mkfifo "$work/in"; nvidia-cuda-mps-control -f -multiuser-server <"$work/in" >"$work/fg.out" 2>&1 & daemon=$!; exec 9>"$work/in"
  for i in $(seq 50); do [ -S "$work/pipe/control" ] && break; sleep 0.1; done; sleep 0.3
  ls -la "$work/pipe" "$work/log"; cat "$work/pipe/nvidia-cuda-mps-control.pid"; echo " pidfile; daemon $daemon"; stat -c '%a %F %n' "$work"/pipe/*
  show nvidia-cuda-mps-control -d; show nvidia-cuda-mps-control -f; logs "second start"
  for c in get_server_list ps "ps -p 1" "" help bogus "bogus 1" get_server_status "get_server_status 1" "get_client_list 1" get_client_list get_device_client_list device_query "device_query --csv" get_default_active_thread_percentage "set_default_active_thread_percentage 12.5" get_default_active_thread_percentage "set_default_active_thread_percentage 0" "set_default_active_thread_percentage 101" "set_default_active_thread_percentage zz" set_default_active_thread_percentage "set_default_active_thread_percentage 33.3333" "set_default_active_thread_percentage 10" "get_default_device_pinned_mem_limit 0" "get_default_device_pinned_mem_limit 7" get_default_device_pinned_mem_limit "set_default_device_pinned_mem_limit 0 1630" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0 4097M" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0 zz" "set_default_device_pinned_mem_limit 0 512K" "set_default_device_pinned_mem_limit 0 5MB" "set_default_device_pinned_mem_limit 0 500M" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit 9 2G" "get_default_device_pinned_mem_limit 9" "set_default_device_pinned_mem_limit $U 4096M" "get_default_device_pinned_mem_limit $U" "get_default_device_pinned_mem_limit 0" "set_default_device_pinned_mem_limit GPU-bad 1G" "get_default_device_pinned_mem_limit GPU-bad" get_default_client_priority "set_default_client_priority 1" "set_default_client_priority 7" "set_default_client_priority 0" sm_partition lspart "start_server" "start_server -uid" "get_active_thread_percentage 1" "set_active_thread_percentage 1 50" "get_device_pinned_mem_limit 1 0" "set_device_pinned_mem_limit 1 0 1G" "terminate_client 1 2" "shutdown_server 1"; do tell "$c"; done
  head -n 20 "$work/fg.out"; seen[$work/fg.out]=$(wc -l <"$work/fg.out"); logs "no server"
  tell "start_server -uid 0"; sleep 1; tell get_server_list; S=$(echo get_server_list | nvidia-cuda-mps-control | head -1); tell "get_server_status $S"; tell "start_server -uid 0"; tell "start_server -uid 1001"
  ls -la "$work/pipe"; logs "start_server"
  client 1; client 2; logs "two clients"
  C=${pids[1]}; D=${pids[2]}
  for c in ps "ps -p $S" "ps -p $C" "get_client_list $S" get_device_client_list "get_device_client_list $S" device_query "device_query --csv" "device_query $S" "device_query $S --csv" "get_active_thread_percentage $S" "set_active_thread_percentage $S 50" "set_active_thread_percentage $S 0" "get_device_pinned_mem_limit $S 0" "get_device_pinned_mem_limit $S $U" "set_device_pinned_mem_limit $S 0 100G" "get_device_pinned_mem_limit $S 0" "get_device_pinned_mem_limit $S $U" "get_server_status $S\nget_server_list\nget_default_active_thread_percentage" "terminate_client $S 1"; do tell "$c"; done
  logs "commands with server"
}
events() {
  nvidia-cuda-mps-control -f </dev/null >"$work/null.out" 2>&1 & daemon=$!; sleep 3; kill -0 $daemon && echo "lives with stdin /dev/null"; kill $daemon; gone $daemon "SIGTERM"; cat "$work/null.out"; ls -la "$work/pipe"
  foreground; echo get_default_active_thread_percentage >&9; echo bogus >&9; sleep 0.3; exec 9>&-; gone $daemon "EOF of a fifo"; logs "EOF"; kill $daemon; gone $daemon TERM; ls "$work/pipe"
  foreground -multiuser-server; tell "set_default_active_thread_percentage 10"; tell "set_default_device_pinned_mem_limit $U 4096M"; logs "started"
  client 1; client 2; S=$(server); C=${pids[1]}; D=${pids[2]}; logs "first two clients"
  say 1 "alloc 5000"; wait_for 1 alloc; say 1 "spin 600"; sleep 0.2; tell "terminate_client $S $C"; wait_for 1 done; say 1 info; wait_for 1 info; tell "get_client_list $S"; tell ps; kill -9 $C; sleep 0.3; logs "terminate_client"
  client 3; say 2 fault; wait_for 2 done; sleep 0.3; tell "get_server_status $S"; tell "get_client_list $S"; logs "fault"
  say 3 info; wait_for 3 info; client 4; tell ps; tell "get_server_status $S"; logs "client after fault"
  kill -9 $D; sleep 0.3; tell "get_server_status $S"; client 5; tell "get_server_status $S"; kill -9 ${pids[3]}; sleep 0.2; tell "get_server_status $S"; logs "after culprit and victim left"
  client 6; tell ps; say 6 "spin 3000"; sleep 0.3; kill -9 ${pids[6]}; sleep 0.5; logs "SIGKILL in flight"; tell "get_server_status $S"; say 5 info; wait_for 5 info; client 7
  kill -9 $S; sleep 0.5; tell get_server_list; tell "get_server_status $S"; logs "server killed"; say 7 info; wait_for 7 info; say 7 "spin 1"; wait_for 7 done; client 8; tell get_server_list; logs "new server"
  S=$(server); kill ${pids[8]}; sleep 0.4; logs "SIGTERM idle client"; client 9; tell "shutdown_server $S"; sleep 0.5; tell get_server_list; logs "shutdown_server with a client"; tell "shutdown_server $S -f"; sleep 0.5; tell get_server_list; logs "shutdown_server -f"; say 9 info; wait_for 9 info
  (setpriv --reuid 1001 --clear-groups python3 "$here/capture_client.py" </dev/null; echo "uid 1001 rc $?") 2>&1; tell get_server_list; logs "uid 1001"
  for n in 10 11; do mkfifo "$work/c$n"; done; S=$(server)
  for n in $(seq 52); do (sleep 9 | python3 "$here/capture_client.py" >"$work/m$n" 2>&1) & done; sleep 7; cat "$work"/m* | cut -d' ' -f2-6 | sort | uniq -c; tell "get_server_status $S"; sleep 3; logs "52 clients" | grep -v 'NEW CLIENT\|Accepting\|exit\|UI\|Cmd:\|Receive\|credentials' | head -30
  tell "quit -t 1"; gone $daemon "quit"; ls "$work/pipe"; logs quit; exec 9>&-
  rm -rf "$work/log"; mkdir "$work/log"; show nvidia-cuda-mps-control -d; until_answers; stat -c '%a %n' "$work"/log/* "$work"/pipe/*; client 1; S=$(server); logs "-d"
  (setpriv --reuid 1001 --clear-groups python3 "$here/capture_client.py" </dev/null >"$work/other" 2>&1; echo "uid 1001 rc $?" >>"$work/other") & sleep 2; echo "before:"; cat "$work/other"; tell "get_server_status $S"; tell ps; exec 11>&-; sleep 3; echo "after:"; cat "$work/other"; tell get_server_list; logs "two users without -M"
  client 2; P=$(cat "$work/pipe/nvidia-cuda-mps-control.pid"); S=$(server); kill -9 $P; gone $S "server after SIGKILL of daemon"; ls -la "$work/pipe"; tell get_server_list; say 2 info; wait_for 2 info; client 3; logs "daemon killed"
  show nvidia-cuda-mps-control -d; until_answers; tell get_server_list; client 4; tell quit; sleep 1; ls "$work/pipe"; logs "quit with client"; say 4 info; wait_for 4 info; exec 14>&-
  CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3G show nvidia-cuda-mps-control -d; until_answers; tell get_default_active_thread_percentage; tell "get_default_device_pinned_mem_limit 0"; P=$(cat "$work/pipe/nvidia-cuda-mps-control.pid"); kill $P; gone $P "SIGTERM of -d"; ls "$work/pipe"; logs "daemon environment"
  rm -rf "$work/log"; show nvidia-cuda-mps-control -d; ls -la "$work"; CUDA_MPS_PIPE_DIRECTORY=$work/none show nvidia-cuda-mps-control -d; ls "$work"; tell quit; CUDA_MPS_PIPE_DIRECTORY=$work/none tell quit
  L=$work/$(printf 'x%.0s' $(seq 90)); mkdir $L; CUDA_MPS_PIPE_DIRECTORY=$L show nvidia-cuda-mps-control -d; CUDA_MPS_PIPE_DIRECTORY=$L tell get_server_list; CUDA_MPS_PIPE_DIRECTORY=$L tell quit
}
other_user() { python3 -c 'print("python", __import__("sys").executable)'; ls -ld /root | cut -c1-10; setpriv --reuid 1001 --clear-groups python3 -c 'print("python runs as 1001")'; }
lives() {
  other_user
  show nvidia-cuda-mps-control -d; until_answers; stat -c '%a %n' "$work"/log/* "$work"/pipe/*; logs "-d"
  for v in "0 1630" "0 zz" "0 512K" "0 5MB" "0 0" "0 -1G" "0 2g" "0 1.5G" "0 700m" "0 3GB" "0 4294967296" "1 2T"; do tell "set_default_device_pinned_mem_limit $v"; tell "get_default_device_pinned_mem_limit ${v%% *}"; done
  tell "set_default_device_pinned_mem_limit $U 3G"; tell "set_default_device_pinned_mem_limit 0 2G"; tell "start_server -uid 0"; sleep 0.6; S=$(server); tell "get_device_pinned_mem_limit $S 0"; tell "get_device_pinned_mem_limit $S $U"; tell "shutdown_server $S"; sleep 0.5
  tell "set_default_device_pinned_mem_limit 0 5G"; tell "start_server -uid 0"; sleep 0.6; S=$(server); tell "get_device_pinned_mem_limit $S 0"; tell "get_device_pinned_mem_limit $S $U"; tell "set_device_pinned_mem_limit $S $U 1G"; tell "get_device_pinned_mem_limit $S 0"; tell "set_device_pinned_mem_limit $S 0 zz"; tell "get_device_pinned_mem_limit $S 0"; tell "ps"; tell get_device_client_list; tell "get_client_list $S"; logs "limits" | lines
  client 1; as_other; sleep 2; echo "before:"; cat "$work/other"; tell "get_server_status $S"; exec 11>&-; sleep 2.5; echo "after:"; cat "$work/other"; tell get_server_list; logs "two users without -M" | grep -v 'UI'
  client 2; client 3; (while echo "spin 1"; do sleep 0.02; done) >&13 2>/dev/null & feeder=$!; sleep 0.3; say 2 "spin 3000"; sleep 0.4; kill -9 ${pids[2]}; sleep 1; kill $feeder; tail -2 "$work/c3.out"; S=$(server); tell "get_server_status $S"; tell "get_client_list $S"; client 4; kill -9 ${pids[3]}; sleep 0.5; tell "get_server_status $S"; client 5; logs "SIGKILL in flight with a peer" | lines
  S=$(server); tell "get_server_status $S"; tell "shutdown_server $S"; tell "shutdown_server $S -f"; sleep 2.5; tell get_server_list; say 5 info; wait_for 5 info; (client 6 & sleep 2; kill $!); kill -9 ${pids[5]}; sleep 1.5; tell get_server_list; logs "shutdown_server with a client" | grep -v UI
  kill -9 $(server) ${pids[6]} 2>/dev/null; sleep 0.5; client 7; S=$(server); kill -9 $S; sleep 0.5; say 7 info; wait_for 7 info; say 7 "spin 1"; wait_for 7 done; logs "server killed" | lines
  leave
}
ends() {
  other_user
  show nvidia-cuda-mps-control -d; until_answers; client 1; S=$(server); logs start >/dev/null
  client 7; kill -9 $S; sleep 0.5; exec 11>&-; say 7 info; wait_for 7 info; say 7 "spin 1"; wait_for 7 done; logs "server killed" | lines
  leave
}
leave() {
  for n in $(seq 52); do (sleep 8 | python3 "$here/capture_client.py" >"$work/m$n" 2>&1) & done; sleep 6.5; cat "$work"/m* | cut -d' ' -f2-6 | sort | uniq -c; S=$(server); tell "get_server_status $S"; sleep 3; logs "52 clients" | grep -v 'NEW CLIENT\|Accepting\|exit\|UI\|Cmd:\|assuming\|credentials\|connected\|worker\|Received\|associated\|is ACTIVE' | head -20
  client 8; tell "quit -t 2"; P=$(cat "$work/pipe/nvidia-cuda-mps-control.pid"); gone $P "quit -t 2"; ls "$work/pipe"; say 8 info; wait_for 8 info; logs "quit -t" | lines; exec 18>&-
  show nvidia-cuda-mps-control -d; until_answers; client 9; P=$(cat "$work/pipe/nvidia-cuda-mps-control.pid"); tell quit; sleep 1; kill -0 $P && echo "daemon waits for its client"; exec 19>&-; gone $P "quit after the client left"; ls "$work/pipe"; logs "quit with a client" | lines
  CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3G show nvidia-cuda-mps-control -d; until_answers; tell get_default_active_thread_percentage; tell "get_default_device_pinned_mem_limit 0"; client 0; P=$(cat "$work/pipe/nvidia-cuda-mps-control.pid"); S=$(server); kill -9 $P; gone $S "server after SIGKILL of its daemon"; ls "$work/pipe"; tell get_server_list; say 0 info; wait_for 0 info; rm -rf "$work/log"; show nvidia-cuda-mps-control -d; until_answers; ls -la "$work" | grep log; P=$(cat "$work/pipe/nvidia-cuda-mps-control.pid"); kill $P; gone $P "SIGTERM of -d"; ls "$work/pipe"; CUDA_MPS_PIPE_DIRECTORY=$work/none show nvidia-cuda-mps-control -d; ls -d "$work"/none; CUDA_MPS_PIPE_DIRECTORY=$work/none tell quit
}
"$1"
kill $(jobs -p) 2>/dev/null; rm -rf "$work"
