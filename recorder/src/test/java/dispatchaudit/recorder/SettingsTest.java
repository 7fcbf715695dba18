package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {
    private static Properties properties(String... namesAndValues) {
        Properties properties = new Properties();
        properties.setProperty("clusterName", "not the recorder's");
        for (int i = 0; i < namesAndValues.length; i += 2) {
            properties.setProperty(Settings.PREFIX + namesAndValues[i], namesAndValues[i + 1]);
        }
        return properties;
    }

    @Test
    void defaultsAreOfUse() throws Exception {
        Settings settings = Settings.of(properties());
        assertTrue(settings.enabled());
        assertEquals(131_072, settings.queueRows());
        assertTrue(settings.topics().matcher("persistent://a/b/c").matches());
    }

    @ParameterizedTest
    @CsvSource({
        "SnapshotMs, soon, dispatchAuditRecorderSnapshotMs is soon",
        "FileSeconds, 0, but is a number from 1",
        "Topics, '(', is not a regular expression",
        "Keys, hashed, may be plain or digest",
        "KeySecretFile, secret, but dispatchAuditRecorderKeys is plain",
        "KeySecretHours, -1, but is a number from 0",
        "LeaveOut, 'address, consumer_name', has consumer_name",
        "LeaveOut, producer_name, set dispatchAuditRecorderKeys=digest",
        "Sample, 1/0, 'is one in so many, such as 1/64'",
        "Sample, 0.01, 'is one in so many, such as 1/64'",
        "Enabled, yes, may be true or false",
        "ReservedRows, 131072, may be half of dispatchAuditRecorderQueueRows",
        "FileBytes, 10737418240, may be half of dispatchAuditRecorderDiskBytes",
        "Key, digest, dispatchAuditRecorderKey is no setting of the recorder",
    })
    void aWrongSettingIsNamed(String name, String value, String said) {
        Settings.WrongSetting wrong =
                assertThrows(Settings.WrongSetting.class, () -> Settings.of(properties(name, value)));
        assertTrue(wrong.getMessage().contains(said), wrong.getMessage());
    }
}
