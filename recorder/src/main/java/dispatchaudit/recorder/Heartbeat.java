package dispatchaudit.recorder;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Says every few seconds that the recorder runs, and says of snapshots that do not end. Its thread takes no lock of the
 * broker, so it goes on when the broker hangs. Nothing is said before there is a subscription to record.
 */
final class Heartbeat implements Runnable {
    private static final long EVERY_NS = TimeUnit.SECONDS.toNanos(2);

    private final Recording recording;
    private final Consumers consumers;
    private final Snapshots snapshots;
    private final Thread thread = new Thread(this, "dispatch-audit-heartbeat");
    private volatile boolean stopping;

    Heartbeat(Recording recording, Consumers consumers, Snapshots snapshots) {
        this.recording = recording;
        this.consumers = consumers;
        this.snapshots = snapshots;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Ends the heartbeats, and says that the recorder was closed in order. */
    void stop() {
        stopping = true;
        LockSupport.unpark(thread);
        if (consumers.hadAny()) {
            say(Row.Event.END);
        }
    }

    @Override
    public void run() {
        while (!stopping) {
            LockSupport.parkNanos(EVERY_NS);
            if (!stopping && consumers.hadAny()) {
                say(Row.Event.HEARTBEAT);
                snapshots.sayWhatHangs();
            }
        }
    }

    private void say(Row.Event event) {
        recording.put(new Rows.Text(recording.now(), Group.EVERYTHING, event, null, ""));
    }
}
