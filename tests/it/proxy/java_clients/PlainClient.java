import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** RabbitMQ's Java client, unmodified, in the way of the delayed-message plugin's users. */
public final class PlainClient {
    private static final List<Object> DELAYS = List.of(900, (byte) 100, 0, 500L, "700");

    public static void main(String[] arguments) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(arguments[0]);
        var name = arguments[1];
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            declare(channel, name);
            channel.confirmSelect();
            var inbox = new LinkedBlockingQueue<Delivery>();
            channel.basicConsume(name, true, (tag, delivery) -> inbox.add(delivery), tag -> {});
            var start = System.nanoTime();
            for (var delay : DELAYS) {
                publish(channel, name, delay);
            }
            channel.waitForConfirmsOrDie(30_000);
            var seen = new ArrayList<String>();
            for (var ignored : DELAYS) {
                seen.add(describe(inbox.poll(30, TimeUnit.SECONDS), start));
            }
            System.out.println("{\"seen\":" + seen + "}");
        }
    }

    private static void declare(Channel channel, String name) throws Exception {
        var type = Map.<String, Object>of("x-delayed-type", BuiltinExchangeType.DIRECT.getType());
        channel.exchangeDeclare(name, "x-delayed-message", true, false, type);
        channel.queueDeclare(name, true, false, false, null);
        channel.queueBind(name, name, "key");
    }

    private static void publish(Channel channel, String name, Object delay) throws Exception {
        var headers = new HashMap<String, Object>();
        if (!delay.equals(0)) {
            headers.put("x-delay", delay);
        }
        var properties = new AMQP.BasicProperties.Builder().deliveryMode(2).headers(headers).build();
        channel.basicPublish(name, "key", true, properties, delay.toString().getBytes());
    }

    private static String describe(Delivery delivery, long start) {
        if (delivery == null) {
            return "\"nothing came\"";
        }
        var body = new String(delivery.getBody());
        var passed = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        var headers = delivery.getProperties().getHeaders();
        var delay = headers == null ? null : headers.get("x-delay");
        var early = passed < Long.parseLong(body);
        return "{\"body\":\"%s\",\"early\":%s,\"delay\":%s}".formatted(body, early, delay);
    }
}
