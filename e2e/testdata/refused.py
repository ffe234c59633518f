"""Produce one record to a topic that refuses it; print the error's name and words."""
import sys
from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=sys.argv[1].split(","))
try:
    producer.send(sys.argv[2], b"no").get(timeout=30)
    print("accepted")
except Exception as error:
    print(type(error).__name__, error)
producer.close(timeout=5)
