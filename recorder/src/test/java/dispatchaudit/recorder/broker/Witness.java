package dispatchaudit.recorder.broker;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.intercept.BrokerInterceptor;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.Subscription;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.MessageMetadata;

/**
 * A second observer of what a broker dispatches, which has nothing of the recorder: for each entry that goes to a consumer it
 * asks the broker itself which consumers have entries of that key among their pending acks, under the dispatcher's lock, in
 * the moment of the dispatch. A line of its file has {@code ledger_id}, {@code entry_id}, {@code key} and {@code consumer_name} of
 * a dispatch, the {@code holders}, which are the names of other consumers that have an entry of the key, {@code again}: the
 * consumer has this entry already, and {@code elsewhere}: another consumer has it, or it is deleted at the cursor.
 */
public final class Witness implements BrokerInterceptor {
    private static final String NAME = "witness";
    /** Property that names the file. */
    private static final String FILE = "test.witness.file";

    private record Position(long ledgerId, long entryId) {
    }

    /** Positions that each consumer was sent, of each key; those that it has given back or acknowledged leave when they are seen. */
    private final Map<String, Map<Consumer, List<Position>>> sent = new HashMap<>();
    /** The question whether it has a position, for each class of pending acks and of cursors. */
    private final Map<Class<?>, Method> questions = new HashMap<>();
    private Writer file;

    /** Settings of a broker that loads it beside the recorder; it writes a file. */
    static Map<String, String> beside(Path recorder, Path file) throws IOException {
        Path directory = Files.createTempDirectory("interceptors");
        Files.copy(recorder, directory.resolve(recorder.getFileName()));
        PluginNar.ofInterceptor(directory.resolve(NAME + ".nar"), NAME, Witness.class);
        System.setProperty(FILE, file.toString());
        return Map.of("brokerInterceptorsDirectory", directory.toString(),
                "brokerInterceptors", "dispatch-audit-recorder," + NAME);
    }

    @Override
    public void initialize(PulsarService pulsar) throws IOException {
        file = Files.newBufferedWriter(Path.of(System.getProperty(FILE)), StandardCharsets.UTF_8);
    }

    @Override
    public synchronized void beforeSendMessage(Subscription subscription, Entry entry, long[] ackSet,
                                               MessageMetadata metadata, Consumer consumer) {
        Position position = new Position(entry.getLedgerId(), entry.getEntryId());
        Map<Consumer, List<Position>> ofKey = sent.computeIfAbsent(metadata.getPartitionKey(), key -> new IdentityHashMap<>());
        // What it was sent itself may become pending only after this call; what others were sent is pending, or was.
        ofKey.forEach((other, positions) -> positions.removeIf(held -> other != consumer && !holds(other, held)));
        ofKey.values().removeIf(List::isEmpty);
        List<Consumer> others = dispatcher(subscription).getConsumers().stream().filter(other -> other != consumer).toList();
        List<String> holders = others.stream().filter(ofKey::containsKey)
                .map(Consumer::consumerName).sorted().toList();
        boolean again = holds(consumer, position);
        ofKey.computeIfAbsent(consumer, none -> new ArrayList<>()).add(position);
        // The interface of cursors has no such question in 3.0.
        boolean elsewhere = others.stream().anyMatch(other -> holds(other, position))
                || ask(((PersistentSubscription) subscription).getCursor(), Set.of("isMessageDeleted"), entry.getPosition());
        write(Map.of("ledger_id", position.ledgerId(), "entry_id", position.entryId(), "key", metadata.getPartitionKey(),
                "consumer_name", consumer.consumerName(), "holders", holders, "again", again, "elsewhere", elsewhere));
    }

    /** Its getter locks the subscription, which joins do before they lock the dispatcher: here it would be the other way round. */
    private static Dispatcher dispatcher(Subscription subscription) {
        try {
            Field field = PersistentSubscription.class.getDeclaredField("dispatcher");
            field.setAccessible(true);
            return (Dispatcher) field.get(subscription);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Pending acks are of another class before 4.0, with another name for the question. */
    private boolean holds(Consumer consumer, Position position) {
        try {
            Object pending = Consumer.class.getMethod("getPendingAcks").invoke(consumer);
            return ask(pending, Set.of("contains", "containsKey"), position.ledgerId(), position.entryId());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private boolean ask(Object asked, Set<String> names, Object... arguments) {
        try {
            return (boolean) questions.computeIfAbsent(asked.getClass(), of -> question(of, names)).invoke(asked, arguments);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Method question(Class<?> asked, Set<String> names) {
        return Stream.of(asked.getMethods()).filter(method -> names.contains(method.getName()) && !method.isBridge())
                .findFirst().orElseThrow(() -> new IllegalStateException(asked + " has no method of " + names));
    }

    private void write(Map<String, Object> line) {
        try {
            file.write(new ObjectMapper().writeValueAsString(line) + "\n");
            file.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void onPulsarCommand(BaseCommand command, ServerCnx connection) {
    }

    @Override
    public void onConnectionClosed(ServerCnx connection) {
    }

    public void onWebserviceRequest(javax.servlet.ServletRequest request) {
    }

    public void onWebserviceResponse(javax.servlet.ServletRequest request, javax.servlet.ServletResponse response) {
    }

    public void onWebserviceRequest(jakarta.servlet.ServletRequest request) {
    }

    public void onWebserviceResponse(jakarta.servlet.ServletRequest request, jakarta.servlet.ServletResponse response) {
    }

    @Override
    public void close() {
    }
}
