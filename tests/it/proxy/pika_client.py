"""A producer and consumer that knows nothing of xdelay but a header and a URL: pika, unmodified."""

import json
import sys
import time

import pika

url, name = sys.argv[1], sys.argv[2]
connection = pika.BlockingConnection(pika.URLParameters(url))
seen = {}


def take(channel, count):
    """So many messages of the queue, or as many as come."""
    taken = []
    for method, properties, body in channel.consume(name, inactivity_timeout=20):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        taken.append((time.time(), properties, body.decode()))
        if len(taken) == count:
            break
    channel.cancel()
    return taken


def delayed(delay):
    return pika.BasicProperties(headers={"x-delay": delay}, delivery_mode=2)


channel = connection.channel()
channel.confirm_delivery()
channel.exchange_declare(name, "topic", durable=True)
channel.queue_declare(name, durable=True)
channel.queue_bind(name, name, "#")
start = time.time()
for delay in (600, None, 200, 400):
    properties = pika.BasicProperties() if delay is None else delayed(delay)
    body = str(delay or 0)
    channel.basic_publish(name, "key", body, properties, mandatory=True)
seen["seen"] = [
    {"body": body, "early": (at - start) * 1000 < int(body)}
    for at, _, body in take(channel, 4)
]

channel.exchange_declare(name + ".unbound", "topic")
try:
    channel.basic_publish(name + ".unbound", "key", "lost", mandatory=True)
    seen["returned"] = False
except pika.exceptions.UnroutableError:
    seen["returned"] = True

transacted = connection.channel()
transacted.tx_select()
transacted.basic_publish(name, "key", "rolled back", delayed(100))
transacted.tx_rollback()
transacted.basic_publish(name, "key", "committed", delayed(100))
transacted.tx_commit()
seen["rolled_back"] = [body for _, _, body in take(transacted, 1)]

broken = connection.channel()
broken.confirm_delivery()
try:
    broken.basic_publish(name + ".missing", "key", "lost", delayed(100))
except pika.exceptions.ChannelClosedByBroker as error:
    seen["channel_error"] = error.reply_code

channel.basic_publish(name, "key", "still works", delayed(50))
seen["after_the_error"] = take(channel, 1)[0][2]
connection.close()
json.dump(seen, sys.stdout)
