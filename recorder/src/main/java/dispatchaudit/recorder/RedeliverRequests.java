package dispatchaudit.recorder;

import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.CommandRedeliverUnacknowledgedMessages;

/**
 * Requests to send entries again, on brokers that do not show them to interceptors, as 3.0.7 does not (contract 10.1): without
 * them a redelivery looks as if the broker had sent an entry twice. They are read from the connection just before the broker
 * acts on them. Of all other frames two bytes are looked at. Once a broker has shown one to the interceptor, nothing is read.
 */
final class RedeliverRequests {
    private static final String NAME = "dispatch-audit-redeliver";
    /** A frame begins with the size of its command, and the command with its type: tag and value. */
    private static final int TAG_AT = 4;
    private static final int TAG = 8;
    private static final int REDELIVER = BaseCommand.Type.REDELIVER_UNACKNOWLEDGED_MESSAGES.getValue();

    private final Recording recording;
    private final Traffic traffic;
    private final Counters counters;
    private volatile boolean shown;

    RedeliverRequests(Recording recording, Traffic traffic, Counters counters) {
        this.recording = recording;
        this.traffic = traffic;
        this.counters = counters;
    }

    /** The broker shows a request to the interceptor, and so all others. */
    void asked(CommandRedeliverUnacknowledgedMessages command, ServerCnx connection) {
        shown = true;
        Row row = traffic.redeliver(command, connection);
        if (row != null) {
            recording.put(row);
        }
    }

    /** Reads the requests of a connection that was just made; call it on the connection's thread. */
    void watch(ServerCnx connection) {
        if (!shown) {
            ChannelHandlerContext ofBroker = connection.ctx();
            ofBroker.pipeline().addBefore(ofBroker.name(), NAME, new Frames(connection));
        }
    }

    private final class Frames extends ChannelInboundHandlerAdapter {
        private final ServerCnx connection;

        Frames(ServerCnx connection) {
            this.connection = connection;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object frame) throws Exception {
            Row row = frame instanceof ByteBuf bytes && isRequest(bytes) ? row(bytes) : null;
            super.channelRead(context, frame);
            if (row != null && !shown) {
                recording.put(row);
            }
            if (shown && !context.isRemoved()) {
                context.pipeline().remove(this);
            }
        }

        private Row row(ByteBuf frame) {
            try {
                int size = (int) frame.getUnsignedInt(frame.readerIndex());
                BaseCommand command = new BaseCommand();
                command.parseFrom(frame.slice(frame.readerIndex() + TAG_AT, size), size);
                return traffic.redeliver(command.getRedeliverUnacknowledgedMessages(), connection);
            } catch (Throwable e) {
                // The broker refuses such a frame, or the recorder has an error; neither may hold it up.
                counters.hookErrors.increment();
                return null;
            }
        }
    }

    private static boolean isRequest(ByteBuf frame) {
        int begin = frame.readerIndex() + TAG_AT;
        return frame.readableBytes() > TAG_AT + 1 && frame.getByte(begin) == TAG && frame.getByte(begin + 1) == REDELIVER;
    }
}
