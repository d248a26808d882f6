"""A producer and a consumer that only know RabbitMQ, and a table of when what arrived.

Usage:  demo.py declare   the exchange and the queue that an application has anyway
        demo.py run       publish, consume, print; fails when a message is missing or early
        demo.py fill      publish what is due in minutes to hours, and one that is no delay

It finds RabbitMQ through TEST_AMQP_URL (`dev/services run main` sets it). The only traces of
xdelay are the exchange published to, `xdelay.orders` instead of `orders`, and names of headers.
With DEMO_PROXY (host:port) it publishes by way of xdelay's proxy: then it is `orders` itself.
"""

import json
import os
import queue
import sys
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone

import pika

EXCHANGE = "orders"
QUEUE = "demo.orders"
PROXY = os.environ.get("DEMO_PROXY")
PUBLISH_TO = EXCHANGE if PROXY else f"xdelay.{EXCHANGE}"
PATIENCE = 15  # seconds after the last due until a message counts as missing
RUN = uuid.uuid4().hex[:8]  # what an earlier, interrupted demo left behind is not ours


def connect():
    return pika.BlockingConnection(pika.URLParameters(os.environ["TEST_AMQP_URL"]))


def connect_to_publish():
    parameters = pika.URLParameters(os.environ["TEST_AMQP_URL"])
    if PROXY:
        host, port = PROXY.rsplit(":", 1)
        parameters.host, parameters.port = host, int(port)
    return pika.BlockingConnection(parameters)


def declare():
    with connect() as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        channel.queue_declare(QUEUE, durable=True)
        channel.queue_bind(QUEUE, EXCHANGE, "order.#")
        channel.queue_purge(QUEUE)
    print(f"exchange `{EXCHANGE}` (topic), queue `{QUEUE}` bound to it with order.#")


class Consumer(threading.Thread):
    """Notes when what arrived. A connection of its own, so that publishing does not slow it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.connection = connect()
        self.arrivals = queue.Queue()

    def run(self):
        channel = self.connection.channel()
        channel.basic_consume(QUEUE, self.note)
        channel.start_consuming()

    def note(self, channel, method, properties, _body):
        self.arrivals.put((time.time(), method.exchange, properties))
        channel.basic_ack(method.delivery_tag)


class Message:
    """One publish, and what came of it. `after` is None if it must never arrive."""

    def __init__(self, text, asked, after, headers):
        self.text, self.asked, self.after, self.headers = text, asked, after, headers
        self.id = f"{RUN}-{text}"
        self.published = self.arrived = self.due = None
        self.copies, self.exchange = 0, ""

    def publish(self, channel):
        headers = self.headers() if callable(self.headers) else self.headers
        self.published = time.time()
        channel.basic_publish(
            PUBLISH_TO,
            "order.created",
            self.text.encode(),
            pika.BasicProperties(message_id=self.id, delivery_mode=2, headers=headers),
        )

    def arrive(self, at, exchange, headers):
        self.copies += 1
        self.arrived, self.exchange = at, exchange
        self.due = (headers or {}).get("x-delayed-due")

    @property
    def waited(self):
        return self.arrived - self.published

    @property
    def late_ms(self):
        return None if self.due is None else self.arrived * 1000 - self.due

    def problem(self):
        if self.after is None:
            return "arrived all the same" if self.copies else None
        if self.copies != 1:
            return "arrived twice" if self.copies else "did not arrive"
        if self.waited < self.after or (self.late_ms or 0) < 0:
            return "arrived early"
        return None

    def row(self):
        if not self.copies:
            arrived = "never, as asked" if self.after is None else "MISSING"
            return [self.text, self.asked, arrived, "", ""]
        late = "" if self.late_ms is None else f"{self.late_ms:.1f} ms"
        return [self.text, self.asked, f"{self.waited:.3f} s", late, self.exchange]


def in_2500_ms():
    # A point in time, in whole milliseconds, taken just before the publish.
    at = datetime.now(timezone.utc) + timedelta(milliseconds=2500)
    return {"x-deliver-at": at.isoformat(timespec="milliseconds")}


def messages():
    def delayed(ms):
        return Message(f"wait {ms} ms", f"x-delay: {ms}", ms / 1000, {"x-delay": ms})

    return [
        Message("no wait", "no header", 0, None),
        *(delayed(ms) for ms in (5000, 3000, 2000, 1000, 500)),
        Message("at a time", "x-deliver-at: in 2.5 s", 2.499, in_2500_ms),
        Message("remind at 1.5", "x-delay: 1500, id a", None, {"x-delay": 1500, "x-delay-id": "a"}),
        Message("remind at 4", "x-delay: 4000, id a again", 4, {"x-delay": 4000, "x-delay-id": "a"}),
        Message("expire order", "x-delay: 1500, id b", None, {"x-delay": 1500, "x-delay-id": "b"}),
        Message("order paid", "x-delay-cancel: b", None, {"x-delay-cancel": "b"}),
    ]


def to_look_at():
    """What waits while somebody looks around: id, headers and body of each."""
    minutes = [2, 3, 5, 5, 8, 10, 15, 15, 15, 20, 30, 30, 45, 60, 60, 60, 90, 120, 180, 240, 360, 720]
    for number, minute in enumerate(minutes, start=1001):
        order = f"order-{number}"
        headers = {"x-delay": minute * 60_000, "x-delay-id": order}
        yield order, headers, {"order": number, "remind": f"after {minute} min"}
    # No delay that anybody could understand: it is kept as dead, with the reason.
    yield "order-1000", {"x-delay": "soon"}, {"order": 1000, "remind": "soon"}


def fill():
    with connect_to_publish() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for order, headers, body in to_look_at():
            properties = pika.BasicProperties(
                message_id=order, content_type="application/json", delivery_mode=2, headers=headers
            )
            channel.basic_publish(PUBLISH_TO, "order.remind", json.dumps(body).encode(), properties)
    say_filled()


def say_filled():
    count = len(list(to_look_at())) - 1
    print(f"{count} messages parked for the next minutes to hours, and one dead letter")


def collect(arrivals, expected):
    by_id = {message.id: message for message in expected}
    deadline = time.time() + max(message.after or 0 for message in expected) + PATIENCE
    while any(message.after is not None and not message.copies for message in expected):
        try:
            at, exchange, properties = arrivals.get(timeout=max(0, deadline - time.time()))
        except queue.Empty:
            return
        if message := by_id.get(properties.message_id):
            message.arrive(at, exchange, properties.headers)


def show(rows, where):
    head = ["message", "asked for", "arrived after", "late", where]
    rows = [head, ["-" * len(cell) for cell in head], *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    right = {2, 3}
    print()
    for row in rows:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        )
        print("  ".join(cells).rstrip())
    print()


def run():
    consumer = Consumer()
    consumer.start()
    published = messages()
    with connect_to_publish() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for message in published:
            message.publish(channel)
    print(f"{len(published)} messages published to `{PUBLISH_TO}`; waiting for the last one")
    collect(consumer.arrivals, published)
    return conclude(published, "exchange the consumer saw")


def conclude(published, where):
    """Prints the table; the exit code says whether all went as it should."""
    show((message.row() for message in sorted(published, key=lambda m: (m.arrived or 1e12))), where)

    problems = [f"{message.text}: {why}" for message in published if (why := message.problem())]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    wanted = sum(message.after is not None for message in published)
    latest = max(message.late_ms for message in published if message.late_ms is not None)
    print(f"All {wanted} that should arrive did, once each and none early; at most {latest:.1f} ms late.")
    print("Late is counted at the consumer, from the header x-delayed-due.")
    return 0


if __name__ == "__main__":
    commands = {"declare": declare, "run": run, "fill": fill}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]]())
