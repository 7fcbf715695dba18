package dispatchaudit.recorder.broker;

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Pulsar's client in Java with transactions, which the client of the tests in Python does not abort. */
final class Transactions {
    private static final int MESSAGES = 20;
    private static final int KEYS = 5;

    private Transactions() {
    }

    /**
     * Aborts what a transaction acknowledged, and what another one published, and commits a third. No transaction does both:
     * then a dispatcher that passes over what was published may lock itself and the abort up (known bug pending_ack_deadlock).
     */
    static void abort(String serviceUrl, String topic) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(serviceUrl).enableTransaction(true).build();
                Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("billing")
                        .consumerName("transacts").subscriptionType(SubscriptionType.Key_Shared)
                        .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).producerName("transacts")
                        .enableBatching(false).sendTimeout(0, TimeUnit.SECONDS).create()) {
            publish(producer, null);
            Transaction acknowledges = begin(client);
            acknowledge(consumer, acknowledges);
            acknowledges.abort().get();
            acknowledge(consumer, null);
            Transaction publishes = begin(client);
            publish(producer, publishes);
            publishes.abort().get();
            Transaction commits = begin(client);
            publish(producer, commits);
            commits.commit().get();
            acknowledge(consumer, null);
        }
    }

    private static Transaction begin(PulsarClient client) throws Exception {
        return client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
    }

    private static void publish(Producer<byte[]> producer, Transaction within) throws Exception {
        for (int number = 0; number < MESSAGES; number++) {
            (within == null ? producer.newMessage() : producer.newMessage(within)).key("key-" + number % KEYS).value(new byte[1]).send();
        }
    }

    private static void acknowledge(Consumer<byte[]> consumer, Transaction within) throws Exception {
        for (int number = 0; number < MESSAGES; number++) {
            Message<byte[]> message = consumer.receive(1, TimeUnit.MINUTES);
            if (message == null) {
                throw new IllegalStateException("the broker sent " + number + " of " + MESSAGES + " messages");
            }
            consumer.acknowledgeAsync(message.getMessageId(), within).get();
        }
    }
}
