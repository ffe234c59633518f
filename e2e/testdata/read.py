"""Reads whole topics with kafka-python, read_committed: a line a record, and one on stderr for where each partition was read to."""
import hashlib
import os
import sys
from kafka import KafkaConsumer, TopicPartition


def text(value):
    """Long values as size and SHA-256."""
    if value is None or len(value) <= 1024:
        return value
    return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()}"


bootstrap, topics = sys.argv[1].split(","), sys.argv[2:]
consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True, isolation_level="read_committed",
                         fetch_max_bytes=64 << 20, max_partition_fetch_bytes=16 << 20)
for topic in topics:
    for number in sorted(consumer.partitions_for_topic(topic)):
        part = TopicPartition(topic, number)
        consumer.assign([part])
        consumer.seek(part, consumer.beginning_offsets([part])[part])  # seek_to_beginning and then position() spin for ever
        end = consumer.end_offsets([part])[part]
        while consumer.position(part) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                for r in records:
                    print(topic, number, r.offset, r.timestamp, r.timestamp_type, text(r.key), text(r.value), r.headers)
        print("position", topic, number, consumer.position(part), file=sys.stderr)
sys.stdout.flush()
os._exit(0)  # close() of this client spins for ever once it has been assigned by hand
