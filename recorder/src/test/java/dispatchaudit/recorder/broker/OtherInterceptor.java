package dispatchaudit.recorder.broker;

import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.intercept.BrokerInterceptor;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.CommandAck;

/** An interceptor of somebody else, which counts what it is shown. Its class is on the class path, so its NAR only names it. */
public final class OtherInterceptor implements BrokerInterceptor {
    static final String NAME = "other";
    static final AtomicInteger DISPATCHED = new AtomicInteger();
    static final AtomicInteger ACKED = new AtomicInteger();
    static final AtomicInteger ASKED = new AtomicInteger();

    /** Writes its NAR. */
    static void write(Path nar) throws IOException {
        try (OutputStream file = Files.newOutputStream(nar); JarOutputStream out = new JarOutputStream(file)) {
            out.putNextEntry(new ZipEntry("META-INF/bundled-dependencies/README"));
            out.putNextEntry(new ZipEntry("META-INF/services/broker_interceptor.yml"));
            out.write(("name: " + NAME + "\ndescription: counts\ninterceptorClass: " + OtherInterceptor.class.getName() + "\n")
                    .getBytes(StandardCharsets.UTF_8));
        }
    }

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
