package dispatchaudit.recorder;

import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.intercept.BrokerInterceptor;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Records what the broker dispatches. */
public final class DispatchRecorder implements BrokerInterceptor {
    private static final Logger log = LoggerFactory.getLogger(DispatchRecorder.class);

    @Override
    public void initialize(PulsarService pulsar) {
        log.info("dispatch-audit recorder: loaded into broker {}", pulsar.getBrokerVersion());
    }

    @Override
    public void onPulsarCommand(BaseCommand command, ServerCnx connection) {
    }

    @Override
    public void onConnectionClosed(ServerCnx connection) {
    }

    @Override
    public void onWebserviceRequest(ServletRequest request) {
    }

    @Override
    public void onWebserviceResponse(ServletRequest request, ServletResponse response) {
    }

    @Override
    public void close() {
    }
}
