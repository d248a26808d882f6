import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Exchange;
import org.springframework.amqp.core.ExchangeBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.support.AmqpHeaders;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.handler.annotation.Header;

/** Spring AMQP, unmodified, with a delayed exchange as its manual describes it. */
@Configuration
@EnableRabbit
public class SpringClient {
    private static final List<Long> DELAYS = List.of(900L, 100L, 0L, 500L);
    private static String url;
    private static String name;

    private final List<String> seen = Collections.synchronizedList(new ArrayList<>());
    private final List<String> returned = Collections.synchronizedList(new ArrayList<>());
    private final CountDownLatch all = new CountDownLatch(DELAYS.size());
    private volatile long start;

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        name = arguments[1];
        System.setProperty("queue", name);
        try (var context = new AnnotationConfigApplicationContext(SpringClient.class)) {
            var self = context.getBean(SpringClient.class);
            self.publish(context.getBean(RabbitTemplate.class));
            self.all.await(30, TimeUnit.SECONDS);
            System.out.printf("{\"seen\":%s,\"returned\":%s}%n", self.seen, self.returned);
        }
        // A thread that closed a channel may wait a minute for another one to close.
        System.exit(0);
    }

    private void publish(RabbitTemplate template) throws Exception {
        start = System.nanoTime();
        var confirms = new ArrayList<CorrelationData>();
        for (var delay : DELAYS) {
            var correlation = new CorrelationData();
            confirms.add(correlation);
            template.convertAndSend(name, "key", delay.toString(), message -> {
                message.getMessageProperties().setDelayLong(delay == 0 ? null : delay);
                return message;
            }, correlation);
        }
        for (var correlation : confirms) {
            if (!correlation.getFuture().get(30, TimeUnit.SECONDS).isAck()) {
                throw new IllegalStateException("a publish was refused");
            }
        }
    }

    @RabbitListener(queues = "${queue}")
    void listen(
            String body,
            Message message,
            @Header(name = AmqpHeaders.RECEIVED_DELAY, required = false) Long header) {
        var passed = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        var received = message.getMessageProperties().getReceivedDelayLong();
        seen.add("{\"body\":\"%s\",\"early\":%s,\"received\":%s,\"header\":%s}"
                .formatted(body, passed < Long.parseLong(body), received, header));
        all.countDown();
    }

    @Bean
    ConnectionFactory connectionFactory() {
        var factory = new CachingConnectionFactory();
        factory.setUri(url);
        factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
        factory.setPublisherReturns(true);
        return factory;
    }

    @Bean
    RabbitTemplate template(ConnectionFactory factory) {
        var template = new RabbitTemplate(factory);
        // With the plugin, this returns every delayed message.
        template.setMandatory(true);
        template.setReturnsCallback(message -> returned.add("\"" + message.getReplyText() + "\""));
        return template;
    }

    @Bean
    RabbitAdmin admin(ConnectionFactory factory) {
        return new RabbitAdmin(factory);
    }

    @Bean
    SimpleRabbitListenerContainerFactory rabbitListenerContainerFactory(ConnectionFactory factory) {
        var containers = new SimpleRabbitListenerContainerFactory();
        containers.setConnectionFactory(factory);
        return containers;
    }

    @Bean
    Exchange exchange() {
        return ExchangeBuilder.directExchange(name).delayed().build();
    }

    @Bean
    Queue queue() {
        return new Queue(name);
    }

    @Bean
    Binding binding(Queue queue, Exchange exchange) {
        return BindingBuilder.bind(queue).to(exchange).with("key").noargs();
    }
}
