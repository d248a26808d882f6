"""A client that shows a certificate, one that does not, and one that would log in with it."""

import json
import os
import ssl
import sys

import pika

url, directory = sys.argv[1], sys.argv[2]
seen = {}


def parameters(certificate, credentials=None):
    context = ssl.create_default_context(cafile=os.path.join(directory, "ca.pem"))
    if certificate:
        files = (os.path.join(directory, "client" + end) for end in (".pem", ".key"))
        context.load_cert_chain(*files)
    to = pika.URLParameters(url.replace("amqps://", "amqp://"))
    to.ssl_options = pika.SSLOptions(context, "localhost")
    if credentials:
        to.credentials = credentials
    return to


connection = pika.BlockingConnection(parameters(True))
channel = connection.channel()
channel.confirm_delivery()
queue = channel.queue_declare("", exclusive=True).method.queue
properties = pika.BasicProperties(headers={"x-delay": 100})
channel.basic_publish("", queue, "later", properties)
for method, properties, body in channel.consume(queue, inactivity_timeout=20):
    seen["delayed"] = body.decode() if method and "x-delayed-uid" in properties.headers else None
    break
connection.close()

try:
    pika.BlockingConnection(parameters(False))
    seen["without_certificate"] = "taken"
except pika.exceptions.AMQPError:
    seen["without_certificate"] = "refused"
except OSError:
    seen["without_certificate"] = "refused"



class External(pika.credentials.ExternalCredentials):
    """Tries, whether the broker offers it or not."""

    def response_for(self, start):
        return "EXTERNAL", b""


pika.credentials.VALID_TYPES.append(External)
try:
    pika.BlockingConnection(parameters(True, External()))
    seen["external"] = "taken"
except pika.exceptions.ProbableAuthenticationError as error:
    seen["external"] = str(error)
except pika.exceptions.AMQPError as error:
    seen["external"] = repr(error)
json.dump(seen, sys.stdout)
