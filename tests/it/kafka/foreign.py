"""A producer and consumer that knows nothing of xdelay but one header: confluent-kafka, unmodified."""

import json
import sys
import time

from confluent_kafka import Consumer, Producer

brokers, topic = sys.argv[1], sys.argv[2]
consumer = Consumer(
    {"bootstrap.servers": brokers, "group.id": f"app of {topic}", "auto.offset.reset": "earliest"}
)
consumer.subscribe([topic])
producer = Producer({"bootstrap.servers": brokers})
start = time.time()
for delay in (900, None, 300, 600):
    body = "undelayed" if delay is None else str(delay)
    headers = [] if delay is None else [("x-delay", str(delay))]
    producer.produce(f"xdelay.{topic}", value=body, key="key", headers=headers)
producer.flush()

seen = []
while len(seen) < 4:
    record = consumer.poll(20)
    if record is None:
        break
    if record.error():
        continue
    headers = dict(record.headers() or [])
    seen.append(
        {
            "body": record.value().decode(),
            "key": record.key().decode(),
            "after_ms": (time.time() - start) * 1000,
            "delay": headers.get("x-delay", b"").decode(),
            "uid": headers["x-delayed-uid"].decode(),
        }
    )
consumer.close()
json.dump(seen, sys.stdout)
