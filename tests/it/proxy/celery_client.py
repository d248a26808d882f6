"""Celery, unmodified, in the way of the delayed-message plugin's users: producer and worker."""

import json
import os
import sys
import threading
import time

from celery import Celery
from celery.contrib.testing.worker import start_worker
from kombu import Exchange, Queue

url, name = sys.argv[1], sys.argv[2]
app = Celery("tasks", broker=url)
exchange = Exchange(
    name, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
)
app.conf.update(
    task_queues=[Queue(name, exchange, routing_key="key")],
    task_default_queue=name,
    task_default_exchange=name,
    task_default_routing_key="key",
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
)
seen = []
done = threading.Event()


@app.task(name="note")
def note(delay):
    seen.append({"body": str(delay), "early": (time.time() - start) * 1000 < delay})
    if len(seen) == 4:
        done.set()


start = time.time()
with start_worker(app, perform_ping_check=False, pool="solo", loglevel="error"):
    start = time.time()
    for delay in (1500, 0, 500, 1000):
        headers = {"x-delay": delay} if delay else {}
        note.apply_async((delay,), headers=headers)
    done.wait(30)
    json.dump({"seen": seen}, sys.__stdout__)
    sys.__stdout__.flush()
    # A worker in a thread waits for its next task; there will be none.
    os._exit(0)
