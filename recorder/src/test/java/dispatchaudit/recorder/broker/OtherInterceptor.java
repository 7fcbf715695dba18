package dispatchaudit.recorder.broker;

import io.netty.buffer.ByteBuf;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.intercept.BrokerInterceptor;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.CommandAck;

/** An interceptor of somebody else, which counts what it is shown. */
public final class OtherInterceptor implements BrokerInterceptor {
    static final String NAME = "other";
    static final AtomicInteger DISPATCHED = new AtomicInteger();
    static final AtomicInteger ACKED = new AtomicInteger();
    static final AtomicInteger ASKED = new AtomicInteger();

    @Override
    public void initialize(PulsarService pulsar) {
        DISPATCHED.set(0);
        ACKED.set(0);
        ASKED.set(0);
    }

    @Override
    public void messageDispatched(ServerCnx connection, Consumer consumer, long ledgerId, long entryId, ByteBuf message) {
        DISPATCHED.incrementAndGet();
    }

    @Override
    public void messageAcked(ServerCnx connection, Consumer consumer, CommandAck command) {
        ACKED.incrementAndGet();
    }

    @Override
    public void onPulsarCommand(BaseCommand command, ServerCnx connection) {
    }

    @Override
    public void onConnectionClosed(ServerCnx connection) {
    }

    public void onWebserviceRequest(javax.servlet.ServletRequest request) {
        ASKED.incrementAndGet();
    }

    public void onWebserviceResponse(javax.servlet.ServletRequest request, javax.servlet.ServletResponse response) {
    }

    public void onWebserviceRequest(jakarta.servlet.ServletRequest request) {
        ASKED.incrementAndGet();
    }

    public void onWebserviceResponse(jakarta.servlet.ServletRequest request, jakarta.servlet.ServletResponse response) {
    }

    @Override
    public void close() {
    }
}
