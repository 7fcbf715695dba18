package dispatchaudit.recorder;

import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * What broker.conf says to the recorder. All names begin with {@code dispatchAuditRecorder}; docs/RECORDING.md lists them.
 *
 * @param directory gets one folder for each start of the broker
 * @param topics full names of topics that are recorded
 * @param topicsExcluded full names of topics that are not, although {@code topics} has them
 * @param subscriptions names of subscriptions that are recorded
 * @param subscriptionsExcluded names of subscriptions that are not, although {@code subscriptions} has them
 * @param digests whether digests of keys are recorded in their place
 * @param digestSecret file with the secret of the digests; null: a random one of this start of the broker
 * @param digestHours how long digests have one secret; 0: always
 * @param leftOut columns that are not recorded
 * @param sampleOneIn of so many sticky hashes one is recorded
 * @param sampleSalt chooses which
 * @param snapshotMs a snapshot of each subscription after so many milliseconds; 0: only after joins, leaves and resets
 * @param queueRows how many rows may wait for the writer
 * @param reservedRows how many of these places only joins, leaves, resets and snapshots may take
 * @param flushMs a kill of the broker loses the rows of so many milliseconds at most
 * @param fileBytes size of a compressed file at which the next one begins
 * @param fileSeconds age of a file at which the next one begins
 * @param diskBytes size of the whole directory above which the oldest files are deleted
 * @param compression level of gzip
 */
record Settings(boolean enabled, Path directory, Pattern topics, Pattern topicsExcluded, Pattern subscriptions,
                Pattern subscriptionsExcluded, boolean digests, Path digestSecret, int digestHours, Set<String> leftOut,
                int sampleOneIn, String sampleSalt, int snapshotMs, int queueRows, int reservedRows, int flushMs, long fileBytes, int fileSeconds, long diskBytes, int compression) {
    static final String PREFIX = "dispatchAuditRecorder";
    static final String ADDRESS = "address";
    static final String PRODUCER_NAME = "producer_name";
    private static final List<String> MAY_BE_LEFT_OUT = List.of(ADDRESS, PRODUCER_NAME);

    /** A setting has a value that it cannot have, or a name that does not exist. */
    static final class WrongSetting extends Exception {
        private static final long serialVersionUID = 1;

        WrongSetting(String message) {
            super(message);
        }
    }

    static Settings of(Properties properties) throws WrongSetting {
        Reader reader = new Reader(properties);
        String keys = reader.text("Keys", "plain");
        String secret = reader.text("KeySecretFile", "");
        if (!keys.equals("plain") && !keys.equals("digest")) {
            throw new WrongSetting(PREFIX + "Keys is " + keys + ", but may be plain or digest");
        }
        boolean digests = keys.equals("digest");
        if (!digests && !secret.isEmpty()) {
            throw new WrongSetting(PREFIX + "KeySecretFile names the secret for " + PREFIX
                    + "Keys=digest, but " + PREFIX + "Keys is plain");
        }
        Set<String> leftOut = reader.columns("LeaveOut");
        if (leftOut.contains(PRODUCER_NAME) && !digests) {
            throw new WrongSetting(PREFIX + "LeaveOut has producer_name, which is also in the plain keys of messages without "
                    + "a key; set " + PREFIX + "Keys=digest");
        }
        Settings settings = new Settings(
                reader.flag("Enabled", true),
                Path.of(reader.text("Directory", "data/dispatch-audit")).toAbsolutePath().normalize(),
                reader.pattern("Topics", ".*"),
                reader.pattern("TopicsExcluded", ""),
                reader.pattern("Subscriptions", ".*"),
                reader.pattern("SubscriptionsExcluded", ""),
                digests,
                secret.isEmpty() ? null : Path.of(secret),
                (int) reader.number("KeySecretHours", 24, 0, 24 * 366),
                leftOut,
                reader.oneIn("Sample"),
                reader.text("SampleSalt", ""),
                (int) reader.number("SnapshotMs", 1_000, 0, 3_600_000),
                (int) reader.number("QueueRows", 131_072, 1_024, 16_777_216),
                (int) reader.number("ReservedRows", 8_192, 1, 16_777_216),
                (int) reader.number("FlushMs", 1_000, 1, 600_000),
                reader.number("FileBytes", 128L << 20, 4_096, 1L << 40),
                (int) reader.number("FileSeconds", 300, 1, 7 * 86_400),
                reader.number("DiskBytes", 10L << 30, 8_192, 1L << 50),
                (int) reader.number("Compression", 1, 1, 9));
        reader.refuseOthers();
        if (settings.reservedRows > settings.queueRows / 2) {
            throw new WrongSetting(PREFIX + "ReservedRows is " + settings.reservedRows
                    + ", but may be half of " + PREFIX + "QueueRows at most");
        }
        if (settings.fileBytes > settings.diskBytes / 2) {
            throw new WrongSetting(PREFIX + "FileBytes is " + settings.fileBytes
                    + ", but may be half of " + PREFIX + "DiskBytes at most");
        }
        return settings;
    }

    /** One line for the broker's log. */
    String summary() {
        return "directory=" + directory + " topics=" + topics + " topicsExcluded=" + topicsExcluded
                + " subscriptions=" + subscriptions + " subscriptionsExcluded=" + subscriptionsExcluded
                + " keys=" + (digests ? "digest, of " + (digestSecret == null ? "a random secret" : digestSecret)
                + " and " + (digestHours == 0 ? "for ever" : digestHours + " hours") : "plain")
                + " leftOut=" + leftOut + " sample=1/" + sampleOneIn + " snapshotMs=" + snapshotMs
                + " queueRows=" + queueRows + " reservedRows=" + reservedRows + " flushMs=" + flushMs
                + " fileBytes=" + fileBytes + " fileSeconds=" + fileSeconds + " diskBytes=" + diskBytes;
    }

    /** Reads values by their short names, and remembers which names there are. */
    private static final class Reader {
        private final Properties properties;
        private final TreeSet<String> known = new TreeSet<>();

        Reader(Properties properties) {
            this.properties = properties;
        }

        String text(String name, String otherwise) {
            known.add(PREFIX + name);
            String value = properties.getProperty(PREFIX + name);
            return value == null || value.isBlank() ? otherwise : value.trim();
        }

        boolean flag(String name, boolean otherwise) throws WrongSetting {
            String value = text(name, Boolean.toString(otherwise));
            if (!value.equals("true") && !value.equals("false")) {
                throw new WrongSetting(PREFIX + name + " is " + value + ", but may be true or false");
            }
            return value.equals("true");
        }

        long number(String name, long otherwise, long least, long most) throws WrongSetting {
            String value = text(name, Long.toString(otherwise));
            try {
                long number = Long.parseLong(value);
                if (number >= least && number <= most) {
                    return number;
                }
            } catch (NumberFormatException e) {
                // Said below.
            }
            throw new WrongSetting(PREFIX + name + " is " + value + ", but is a number from " + least + " to " + most);
        }

        /** A share such as 1/64. */
        int oneIn(String name) throws WrongSetting {
            String value = text(name, "1/1");
            if (!value.matches("1/[1-9][0-9]{0,6}")) {
                throw new WrongSetting(PREFIX + name + " is " + value + ", but is one in so many, such as 1/64");
            }
            return Integer.parseInt(value.substring(2));
        }

        Pattern pattern(String name, String otherwise) throws WrongSetting {
            String value = text(name, otherwise);
            try {
                return Pattern.compile(value);
            } catch (PatternSyntaxException e) {
                throw new WrongSetting(PREFIX + name + " is not a regular expression: " + e.getDescription());
            }
        }

        /** Columns that may be left out, with commas between them. */
        Set<String> columns(String name) throws WrongSetting {
            Set<String> found = new TreeSet<>();
            for (String column : text(name, "").split(",")) {
                if (!column.isBlank() && !MAY_BE_LEFT_OUT.contains(column.trim())) {
                    throw new WrongSetting(PREFIX + name + " has " + column.trim() + ", but may have "
                            + String.join(" and ", MAY_BE_LEFT_OUT));
                }
                if (!column.isBlank()) {
                    found.add(column.trim());
                }
            }
            return found;
        }

        /** A misspelt name must not record keys that its setting was to hide. */
        void refuseOthers() throws WrongSetting {
            for (String name : properties.stringPropertyNames()) {
                if (name.startsWith(PREFIX) && !known.contains(name)) {
                    throw new WrongSetting(name + " is no setting of the recorder; these are: "
                            + String.join(", ", known));
                }
            }
        }
    }
}
