"""A producer and consumer that knows nothing of xdelay but one header: pika, unmodified."""

import json
import sys
import time

import pika

url, exchange = sys.argv[1], sys.argv[2]
channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
channel.confirm_delivery()
start = time.time()
for delay in (900, None, 300, 600):
    headers = {} if delay is None else {"x-delay": delay}
    body = "undelayed" if delay is None else str(delay)
    properties = pika.BasicProperties(headers=headers, delivery_mode=2)
    channel.basic_publish(f"xdelay.{exchange}", "key", body, properties, mandatory=True)

seen = []
for method, properties, body in channel.consume(exchange, inactivity_timeout=20):
    if method is None:
        break
    seen.append(
        {
            "body": body.decode(),
            "after_ms": (time.time() - start) * 1000,
            "exchange": method.exchange,
            "delay": properties.headers.get("x-delay"),
        }
    )
    channel.basic_ack(method.delivery_tag)
    if len(seen) == 4:
        break
json.dump(seen, sys.stdout)
