package dispatchaudit.recorder.broker;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.Subscription;

/**
 * A broker with the recorder, as a process of its own for tests in other languages.
 *
 * <pre>java @target/test-broker.args --trace-dir DIR [--no-recorder] [--witness FILE] [name=value of broker.conf ...]</pre>
 *
 * It writes one line to standard output when it takes traffic, {@code {"service_url": ..., "admin_url": ...}}, and stops
 * when its standard input ends. Until then a line there asks for statistics as {@code pulsar-admin} prints them:
 * {@code stats TOPIC FILE} or {@code stats-internal TOPIC FILE}. The answer is the name of the file, or the error, in one
 * line. {@code block TOPIC MILLISECONDS} keeps the locks of the dispatchers of a topic for so long, as a broker does that
 * hangs; its answer comes when the locks are taken. {@code abort TOPIC} lets a client use transactions, and abort them.
 * {@code restart} stops the broker and starts it on the same storage; its answer is the line of its new addresses. A folder
 * that {@code entryFiltersDirectory} names gets the filters of {@link EntryFilters}. Its log goes to standard error.
 */
public final class TestBroker {
    private TestBroker() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        boolean recorder = true;
        Path witness = null;
        for (int i = 0; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            if (arguments[i].equals("--trace-dir") && i + 1 < arguments.length) {
                settings.put("dispatchAuditRecorderDirectory", Path.of(arguments[++i]).toAbsolutePath().toString());
            } else if (arguments[i].equals("--witness") && i + 1 < arguments.length) {
                witness = Path.of(arguments[++i]).toAbsolutePath();
            } else if (arguments[i].equals("--no-recorder")) {
                recorder = false;
            } else if (equals > 0) {
                settings.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
            } else {
                System.err.println("unknown argument " + arguments[i]
                        + "; known are --trace-dir DIR, --no-recorder, --witness FILE and name=value");
                System.exit(2);
            }
        }
        Path nar = recorder ? Path.of(System.getProperty("recorder.nar")).toAbsolutePath() : null;
        if (witness != null) {
            settings.putAll(Witness.beside(nar, witness));
        }
        if (settings.containsKey("entryFiltersDirectory")) {
            EntryFilters.write(Path.of(settings.get("entryFiltersDirectory")));
        }
        EmbeddedBroker broker = start(nar, settings);
        say(addresses(broker));
        answer(broker);
        int status = 1;
        try {
            broker.close();
            status = 0;
        } finally {
            // Threads of the broker and of the bookie outlive them.
            Runtime.getRuntime().halt(status);
        }
    }

    private static String addresses(EmbeddedBroker broker) {
        return "{\"service_url\": \"%s\", \"admin_url\": \"%s\"}".formatted(broker.serviceUrl(), broker.adminUrl());
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Answers lines of standard input until it ends. */
    private static void answer(EmbeddedBroker broker) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                say(answer(broker, line.split(" ", 3)));
            } catch (Exception e) {
                say("error: " + String.valueOf(e.getMessage()).replace('\n', ' '));
            }
        }
    }

    private static String answer(EmbeddedBroker broker, String[] words) throws Exception {
        switch (words[0]) {
            case "restart" -> {
                broker.restart();
                return addresses(broker);
            }
            case "block" -> block(broker.service(), words[1], Long.parseLong(words[2]));
            case "abort" -> Transactions.abort(broker.serviceUrl(), words[1]);
            default -> new PrintedStatistics(broker.service().getAdminClient())
                    .write(words[0], words[1], Path.of(words[2]));
        }
        return words[words.length - 1];
    }

    /** Keeps the locks of the dispatchers of a topic's subscriptions for some time. */
    private static void block(PulsarService service, String topic, long milliseconds) throws Exception {
        for (Subscription subscription : service.getBrokerService().getTopicReference(topic).orElseThrow()
                .getSubscriptions().values()) {
            Dispatcher dispatcher = subscription.getDispatcher();
            CountDownLatch taken = new CountDownLatch(1);
            Thread thread = new Thread(() -> {
                synchronized (dispatcher) {
                    taken.countDown();
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(milliseconds));
                }
            }, "blocks-the-dispatcher");
            thread.setDaemon(true);
            thread.start();
            taken.await();
        }
    }

    /** Ends the process if the broker does not start: threads of the bookie would keep it alive. */
    private static EmbeddedBroker start(Path nar, Map<String, String> settings) {
        try {
            return EmbeddedBroker.start(nar, settings);
        } catch (Throwable e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        }
    }
}
