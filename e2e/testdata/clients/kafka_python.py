"""kafka-python, driven as Client.java says."""
import os
import select
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

mode, bootstrap, topic = sys.argv[1:4]
common = {"bootstrap_servers": bootstrap, "reconnect_backoff_max_ms": 200}


def options(args):
    for a in args:
        key, value = a.split("=", 1)
        common[key] = value


def close(consumer):
    try:
        consumer.close(autocommit=False, timeout_ms=5000)
    except TypeError:  # versions of years ago know no time-out
        consumer.close(autocommit=False)


def say(*words):
    print(*words, flush=True)


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        say("own", ",".join(str(p.partition) for p in sorted(assigned)))

    def on_partitions_revoked(self, revoked):
        say("own", "")


def member(group):
    consumer = KafkaConsumer(group_id=group, enable_auto_commit=False, auto_offset_reset="earliest", metadata_max_age_ms=1000, **common)
    consumer.subscribe([topic], listener=Listener())
    while not select.select([sys.stdin], [], [], 0)[0]:
        polled = consumer.poll(timeout_ms=200)
        for records in polled.values():
            for r in records:
                say("got", r.partition, r.offset, r.key.decode(), r.value.decode())
        try:
            if polled:
                consumer.commit()
        except KafkaError as error:
            print("commit:", error, file=sys.stderr)
    consumer.commit()
    close(consumer)


def read(group, n):
    consumer = KafkaConsumer(topic, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest", **common)
    while n > 0:
        n -= sum(len(records) for records in consumer.poll(timeout_ms=200).values())
    consumer.commit()
    close(consumer)


if mode == "create":
    options(sys.argv[5:])
    KafkaAdminClient(**common).create_topics([NewTopic(topic, int(sys.argv[4]), 1)])
elif mode == "produce":
    codec, prefix, n = sys.argv[4], sys.argv[5], int(sys.argv[6])
    options(sys.argv[7:])
    producer = KafkaProducer(compression_type=None if codec == "none" else codec, linger_ms=5, **common)
    keys = [f"{prefix}-{i}" for i in range(n)]
    sent = [producer.send(topic, key=k.encode(), value=((k + "/") * 8).encode()) for k in keys]
    for s in sent:
        s.get(timeout=30)
elif mode == "member":
    options(sys.argv[5:])
    member(sys.argv[4])
elif mode == "read":
    options(sys.argv[6:])
    read(sys.argv[4], int(sys.argv[5]))
say("done")
os._exit(0)
