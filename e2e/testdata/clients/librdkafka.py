"""confluent-kafka-python, which is librdkafka, driven as Client.java says."""
import select
import sys

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

mode, bootstrap, topic = sys.argv[1:4]
common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}


def options(args):
    for a in args:
        key, value = a.split("=", 1)
        common[key] = value


def say(*words):
    print(*words, flush=True)


def produce(codec, prefix, n):
    failed = []
    producer = Producer({"compression.codec": codec, "linger.ms": 5, "enable.idempotence": True, **common})
    for i in range(n):
        key = f"{prefix}-{i}"
        producer.produce(topic, key=key, value=(key + "/") * 8, on_delivery=lambda error, _: error and failed.append(error))
    left = producer.flush(30)
    if left or failed:
        sys.exit(f"{left} records are left, {failed[:1]}")


def member(group):
    owned = set()

    def own():
        say("own", ",".join(str(p) for p in sorted(owned)))

    def assigned(_, partitions):
        owned.update(p.partition for p in partitions)
        own()

    def revoked(_, partitions):
        owned.difference_update(p.partition for p in partitions)
        own()

    consumer = Consumer({"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "check.crcs": True, **common})
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    while not select.select([sys.stdin], [], [], 0)[0]:
        got = consumer.consume(500, timeout=0.2)
        for r in got:
            if r.error():
                print("consume:", r.error(), file=sys.stderr)
                continue
            say("got", r.partition(), r.offset(), r.key().decode(), r.value().decode())
        try:
            if got:
                consumer.commit(asynchronous=False)
        except KafkaException as error:
            print("commit:", error, file=sys.stderr)
    consumer.close()


if mode == "create":
    options(sys.argv[5:])
    admin = AdminClient(common)  # its futures fail once it is collected
    for made in admin.create_topics([NewTopic(topic, int(sys.argv[4]), 1)]).values():
        made.result(30)
elif mode == "produce":
    options(sys.argv[7:])
    produce(sys.argv[4], sys.argv[5], int(sys.argv[6]))
elif mode == "member":
    options(sys.argv[5:])
    member(sys.argv[4])
say("done")
