// Node's amqplib, unmodified, in the way of the delayed-message plugin's users.
const amqp = require("amqplib");

const [url, name] = process.argv.slice(2);

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  await channel.assertExchange(name, "x-delayed-message", {
    durable: true,
    arguments: { "x-delayed-type": "direct" },
  });
  await channel.assertQueue(name);
  await channel.bindQueue(name, name, "key");
  const start = Date.now();
  const seen = [];
  const all = new Promise((resolve) => {
    channel.consume(name, (message) => {
      channel.ack(message);
      const body = message.content.toString();
      const early = Date.now() - start < Number(body);
      seen.push({ body, early, delay: message.properties.headers["x-delay"] ?? null });
      if (seen.length === 4) resolve();
    });
  });
  // 100 is sent as one byte, which the plugin does not understand.
  for (const delay of [900, 100, null, 500]) {
    const headers = delay === null ? {} : { "x-delay": delay };
    channel.publish(name, "key", Buffer.from(String(delay ?? 0)), { headers });
  }
  await channel.waitForConfirms();
  await all;
  await connection.close();
  console.log(JSON.stringify({ seen }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
