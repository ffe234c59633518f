"""Reads whole topics with kafka-python, read_committed: a line a record."""
import os
import sys
from kafka import KafkaConsumer, TopicPartition

bootstrap, topics = sys.argv[1].split(","), sys.argv[2:]
consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True, isolation_level="read_committed")
for topic in topics:
    part = TopicPartition(topic, 0)
    consumer.assign([part])
    consumer.seek(part, consumer.beginning_offsets([part])[part])  # seek_to_beginning and then position() spin for ever
    end = consumer.end_offsets([part])[part]
    while consumer.position(part) < end:
        for records in consumer.poll(timeout_ms=1000).values():
            for r in records:
                print(topic, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
sys.stdout.flush()
os._exit(0)  # close() of this client spins for ever once it has been assigned by hand
