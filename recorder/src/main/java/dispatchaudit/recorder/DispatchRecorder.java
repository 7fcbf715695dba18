package dispatchaudit.recorder;

import io.netty.buffer.ByteBuf;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.intercept.BrokerInterceptor;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Producer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.Subscription;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.CommandAck;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The broker's side of the recorder: passes each hook on to the part that makes rows of it. Nothing is thrown into the
 * broker, where an exception could veto a command or break off a dispatch (contract 10.1).
 */
public final class DispatchRecorder implements BrokerInterceptor {
    private static final Logger log = LoggerFactory.getLogger(DispatchRecorder.class);
    private static final int ERRORS_LOGGED = 10;
    /** Attribute of a request: the subscriptions that it resets. */
    private static final String CONCERNED = "dispatchaudit.recorder.reset";

    /** Null while the recorder is off: before the start, after a wrong setting, after the end. */
    private volatile Parts parts;

    @Override
    public void initialize(PulsarService pulsar) {
        try {
            Settings settings = Settings.of(pulsar.getConfiguration().getProperties());
            if (!settings.enabled()) {
                log.info("dispatch-audit recorder: off, as {}Enabled=false says", Settings.PREFIX);
                return;
            }
            Parts started = Parts.start(pulsar, settings);
            parts = started;
            log.info("dispatch-audit recorder: records into {}: {}{}", started.name(), settings.summary(), missing());
        } catch (Settings.WrongSetting e) {
            log.error("dispatch-audit recorder: off, because of a wrong setting: {}. Correct broker.conf and restart the "
                    + "broker", e.getMessage());
        } catch (Throwable e) {
            log.error("dispatch-audit recorder: off, because it could not start", e);
        }
    }

    private static String missing() {
        List<String> fields = BrokerFeatures.missing();
        return fields.isEmpty() ? "" : "; this broker has no " + String.join(", ", fields);
    }

    /** What a hook does with the parts. Those that run for every message do without it: a lambda costs them 0.4 us of CPU. */
    @FunctionalInterface
    private interface Hook {
        void run(Parts parts) throws Exception;
    }

    private void hook(Hook hook) {
        Parts running = parts;
        if (running != null) {
            try {
                hook.run(running);
            } catch (Throwable e) {
                failed(running, e);
            }
        }
    }

    private static void failed(Parts running, Throwable e) {
        running.counters().hookErrors.increment();
        if (running.counters().hookErrors.sum() <= ERRORS_LOGGED) {
            log.warn("dispatch-audit recorder: a hook failed; the broker goes on without its row", e);
        }
    }

    @Override
    public void onMessagePublish(Producer producer, ByteBuf headersAndPayload, Topic.PublishContext context) {
        Parts running = parts;
        if (running != null) {
            try {
                running.traffic().publishBegins(producer, headersAndPayload, context);
            } catch (Throwable e) {
                failed(running, e);
            }
        }
    }

    @Override
    public void messageProduced(ServerCnx connection, Producer producer, long startTimeNs, long ledgerId, long entryId,
                                Topic.PublishContext context) {
        Parts running = parts;
        if (running != null) {
            try {
                running.traffic().published(ledgerId, entryId, context);
            } catch (Throwable e) {
                failed(running, e);
            }
        }
    }

    @Override
    public void beforeSendMessage(Subscription subscription, Entry entry, long[] ackSet, MessageMetadata metadata,
                                  Consumer consumer) {
        Parts running = parts;
        if (running != null) {
            try {
                running.traffic().dispatchStarts(entry, ackSet, metadata, consumer);
            } catch (Throwable e) {
                failed(running, e);
            }
        }
    }

    @Override
    public void messageAcked(ServerCnx connection, Consumer consumer, CommandAck command) {
        Parts running = parts;
        if (running != null) {
            try {
                running.traffic().acked(consumer, command);
            } catch (Throwable e) {
                failed(running, e);
            }
        }
    }

    @Override
    public void consumerCreated(ServerCnx connection, Consumer consumer, Map<String, String> metadata) {
        hook(p -> p.membership().joined(consumer, connection));
    }

    @Override
    public void consumerClosed(ServerCnx connection, Consumer consumer, Map<String, String> metadata) {
        hook(p -> p.membership().left(consumer, connection));
    }

    @Override
    public void onConnectionCreated(ServerCnx connection) {
        hook(p -> p.redelivers().watch(connection));
    }

    @Override
    public void onConnectionClosed(ServerCnx connection) {
        hook(p -> p.membership().connectionClosed(connection));
    }

    /** Commands of clients before the broker acts on them, and answers before they are sent. */
    @Override
    public void onPulsarCommand(BaseCommand command, ServerCnx connection) {
        Parts running = parts;
        if (running != null) {
            try {
                command(running, command, connection);
            } catch (Throwable e) {
                failed(running, e);
            }
        }
    }

    private static void command(Parts p, BaseCommand command, ServerCnx connection) {
        switch (command.getType()) {
            case MESSAGE -> p.traffic().dispatched(command.getMessage(), connection);
            case ACK -> p.traffic().ackStarts(command.getAck(), connection);
            case REDELIVER_UNACKNOWLEDGED_MESSAGES ->
                    p.redelivers().asked(command.getRedeliverUnacknowledgedMessages(), connection);
            case SUBSCRIBE -> p.membership().subscribe(command.getSubscribe(), connection);
            case CLOSE_CONSUMER -> p.membership().leaving(command.getCloseConsumer().getConsumerId(), connection);
            case UNSUBSCRIBE -> p.membership().leaving(command.getUnsubscribe().getConsumerId(), connection);
            case SEEK -> p.resets().seek(
                    connection, command.getSeek().getConsumerId(), command.getSeek().getRequestId());
            case SUCCESS -> p.resets().answered(connection, command.getSuccess().getRequestId(), true);
            case ERROR -> {
                p.resets().answered(connection, command.getError().getRequestId(), false);
                p.membership().refused(command.getError(), connection);
            }
            // SEND and its receipt above all: two for each message.
            default -> { }
        }
    }

    // Requests of administrators come as classes of javax.servlet up to 4.2, of jakarta.servlet from 5.0 on. A broker calls those
    // of its interface; the others name classes that it need not have, and are never asked for. So none can have @Override.

    public void onWebserviceRequest(javax.servlet.ServletRequest request) {
        if (request instanceof javax.servlet.http.HttpServletRequest http) {
            hook(p -> keep(p.resets().asked(http.getMethod(), http.getRequestURI()), http::setAttribute));
        }
    }

    public void onWebserviceResponse(javax.servlet.ServletRequest request, javax.servlet.ServletResponse response) {
        hook(p -> {
            if (request.getAttribute(CONCERNED) instanceof List<?> concerned) {
                request.removeAttribute(CONCERNED);
                p.resets().answered(concerned, ((javax.servlet.http.HttpServletResponse) response).getStatus());
            }
        });
    }

    public void onWebserviceRequest(jakarta.servlet.ServletRequest request) {
        if (request instanceof jakarta.servlet.http.HttpServletRequest http) {
            hook(p -> keep(p.resets().asked(http.getMethod(), http.getRequestURI()), http::setAttribute));
        }
    }

    public void onWebserviceResponse(jakarta.servlet.ServletRequest request, jakarta.servlet.ServletResponse response) {
        hook(p -> {
            if (request.getAttribute(CONCERNED) instanceof List<?> concerned) {
                request.removeAttribute(CONCERNED);
                p.resets().answered(concerned, ((jakarta.servlet.http.HttpServletResponse) response).getStatus());
            }
        });
    }

    private static void keep(List<RecordedSubscription> concerned, BiConsumer<String, Object> attributes) {
        if (!concerned.isEmpty()) {
            attributes.accept(CONCERNED, concerned);
        }
    }

    @Override
    public void close() {
        Parts running = parts;
        parts = null;
        if (running == null) {
            return;
        }
        try {
            running.stop();
            log.info("dispatch-audit recorder: closed {}", running.name());
        } catch (Throwable e) {
            log.warn("dispatch-audit recorder: closed, but not its last file", e);
        }
    }
}
