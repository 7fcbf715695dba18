package dispatchaudit.recorder;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.HashSet;
import java.util.Set;

/** Says for which lock a thread waits, who holds it, for which lock that one waits, and so on. */
final class WaitingThread {
    private WaitingThread() {
    }

    /** Returns the chain in words; an empty text if the thread waits for no lock that has a holder. */
    static String chain(Thread thread) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        StringBuilder text = new StringBuilder();
        Set<Long> seen = new HashSet<>();
        long id = thread.getId();
        while (id > 0) {
            ThreadInfo info = threads.getThreadInfo(id);
            if (info == null || info.getLockName() == null) {
                break;
            }
            if (!seen.add(id)) {
                text.append("; these threads wait for each other");
                break;
            }
            text.append(text.length() == 0 ? "" : ", which waits for ").append("a lock of ")
                    .append(info.getLockInfo().getClassName());
            if (info.getLockOwnerName() != null) {
                text.append(", held by thread ").append(info.getLockOwnerName());
            }
            id = info.getLockOwnerId();
        }
        return text.toString();
    }
}
