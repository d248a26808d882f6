"""The same demo for a producer and a consumer that only know Kafka (see demo.py).

Usage:  demo_kafka.py declare   the topic that an application has anyway
        demo_kafka.py run       write, read, print; fails when a record is missing or early
        demo_kafka.py fill      write what is due in minutes to hours, and one that is no delay

It finds Kafka through TEST_KAFKA_BROKERS. The only traces of xdelay are the topic written to,
`xdelay.orders` instead of `orders`, and names of headers.
"""

import json
import os
import queue
import sys
import threading
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import demo

TOPIC = "orders"
BROKERS = {"bootstrap.servers": os.environ.get("TEST_KAFKA_BROKERS", "127.0.0.1:9092")}


def declare():
    admin = AdminClient(BROKERS)
    if TOPIC not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()
    print(f"topic `{TOPIC}`, 3 partitions")


class Reader(threading.Thread):
    """Notes when what arrived."""

    def __init__(self):
        super().__init__(daemon=True)
        # From the beginning: with "latest" what comes while that is looked up would be missed.
        settings = {"group.id": f"demo {demo.RUN}", "auto.offset.reset": "earliest"}
        self.consumer = Consumer(BROKERS | settings)
        self.arrivals = queue.Queue()
        self.assigned = threading.Event()

    def run(self):
        self.consumer.subscribe([TOPIC], on_assign=lambda *_: self.assigned.set())
        while True:
            record = self.consumer.poll(1)
            if record is not None and not record.error():
                self.arrivals.put((time.time(), record))


class Record(demo.Message):
    """A message of the other demo, with the id as key: what belongs together stays in order."""

    def produce(self, producer):
        headers = self.headers() if callable(self.headers) else self.headers or {}
        self.published = time.time()
        producer.produce(
            f"xdelay.{TOPIC}",
            key=str(headers.get("x-delay-id") or headers.get("x-delay-cancel") or self.text),
            value=self.id,
            headers=[(name, str(value)) for name, value in headers.items()],
        )


def collect(arrivals, expected):
    by_id = {record.id: record for record in expected}
    deadline = time.time() + max(record.after or 0 for record in expected) + demo.PATIENCE
    while any(record.after is not None and not record.copies for record in expected):
        try:
            at, got = arrivals.get(timeout=max(0, deadline - time.time()))
        except queue.Empty:
            return
        if record := by_id.get(got.value().decode()):
            headers = dict(got.headers())
            record.arrive(at, got.topic(), {"x-delayed-due": int(headers["x-delayed-due"])})


def run():
    reader = Reader()
    reader.start()
    reader.assigned.wait(30)
    demo.Message = Record
    written = demo.messages()
    producer = Producer(BROKERS | {"linger.ms": 0})
    for record in written:
        record.produce(producer)
    producer.flush()
    print(f"{len(written)} records written to `xdelay.{TOPIC}`; waiting for the last one")
    collect(reader.arrivals, written)
    return demo.conclude(written, "topic the consumer saw")


def fill():
    producer = Producer(BROKERS)
    for order, headers, body in demo.to_look_at():
        headers = [(name, str(value)) for name, value in headers.items()]
        producer.produce(f"xdelay.{TOPIC}", key=order, value=json.dumps(body), headers=headers)
    producer.flush()
    demo.say_filled()


if __name__ == "__main__":
    commands = {"declare": declare, "run": run, "fill": fill}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]]())
