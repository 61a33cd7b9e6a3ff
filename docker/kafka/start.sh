#!/usr/bin/env bash
# start.sh PROPERTIES: start a lone broker so that a crash of it loses nothing.
#
# A node that is broker and controller comes back from a crash believing that it still leads everything, and its
# transaction coordinator goes on with the commits that the crash cut short. Seconds later its controller fences that
# earlier life, for a moment nothing has a leader, and the coordinator takes partitions without one for deleted: it
# records a commit as complete and never writes its marker. So after a crash the controller runs alone first, until it
# has given the dead broker up. Brokers with replicas fail over instead and need none of this.
set -euo pipefail
properties=$1
kafka=/opt/kafka/bin
data=$(sed -n 's/^log.dirs=//p' "$properties")
patience_s=10   # the dead broker is fenced after half a second: by then it surely is

fence_earlier_life() {
  echo "the broker was not shut down: its controller runs alone first"
  {
    cat "$properties"
    printf '%s\n' process.roles=controller listeners=CONTROLLER://:9093 \
      broker.session.timeout.ms=500 broker.heartbeat.interval.ms=100
  } > /tmp/controller.properties
  "$kafka/kafka-server-start.sh" /tmp/controller.properties > /tmp/controller.log 2>&1 &
  local controller=$! started=0 waited
  for ((waited = 1; waited < 600; waited++)); do
    kill -0 "$controller" 2>/dev/null || { cat /tmp/controller.log; exit 1; }
    if ((!started)) && grep -q 'Kafka Server started' /tmp/controller.log; then started=$waited; fi
    if ((started && waited - started > patience_s * 10)); then break; fi
    if grep -q 'Fencing broker' /tmp/controller.log; then break; fi
    sleep 0.1
  done
  sleep 0.5   # it says so before it is on disk
  kill -TERM "$controller"
  wait "$controller" || true
  rm /tmp/controller.log
}

if [[ ! -e $data/meta.properties ]]; then
  "$kafka/kafka-storage.sh" format --cluster-id "${CLUSTER_ID:-d2FsYnJpZGdlLXNhbXBsZQ}" --config "$properties"
elif [[ ! -e $data/.kafka_cleanshutdown ]]; then
  fence_earlier_life
fi
exec "$kafka/kafka-server-start.sh" "$properties" --override "advertised.listeners=$ADVERTISED_LISTENERS"
