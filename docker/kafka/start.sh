#!/usr/bin/env bash
# Start a lone broker so that a crash of it loses nothing; `/etc/kafka/docker/run` is the image's own start.
#
# A node that is broker and controller comes back from a crash believing that it still leads everything, and its
# transaction coordinator goes on with the commits that the crash cut short. Seconds later its controller fences that
# earlier life, for a moment nothing has a leader, and the coordinator takes partitions without one for deleted: it
# records a commit as complete and never writes its marker. So after a crash the controller runs alone first, until it
# has given the dead broker up. Brokers with replicas fail over instead and need none of this.
set -euo pipefail
data=${KAFKA_LOG_DIRS:?}
patience_s=10   # the dead broker is fenced after half a second: by then it surely is

fence_earlier_life() {
  local said
  said=$(mktemp)
  echo "the broker was not shut down: its controller runs alone first"
  KAFKA_PROCESS_ROLES=controller KAFKA_LISTENERS="CONTROLLER://:9093" KAFKA_ADVERTISED_LISTENERS='' \
    KAFKA_BROKER_SESSION_TIMEOUT_MS=500 KAFKA_BROKER_HEARTBEAT_INTERVAL_MS=100 \
    bash -c 'unset KAFKA_ADVERTISED_LISTENERS; exec /etc/kafka/docker/run' >"$said" 2>&1 &
  local controller=$! started=0
  for ((waited = 0; waited < 600; waited++)); do
    kill -0 "$controller" 2>/dev/null || { cat "$said"; exit 1; }
    if ((!started)) && grep -q 'Kafka Server started' "$said"; then started=$waited; fi
    if ((started)) && ((waited - started > patience_s * 10)); then break; fi
    if grep -q 'Fencing broker' "$said"; then break; fi
    sleep 0.1
  done
  sleep 0.5   # it says so before it is on disk
  kill -TERM "$controller"
  wait "$controller" || true
  rm -f "$said"
}

if [[ -e $data/meta.properties && ! -e $data/.kafka_cleanshutdown ]]; then fence_earlier_life; fi
exec /etc/kafka/docker/run
