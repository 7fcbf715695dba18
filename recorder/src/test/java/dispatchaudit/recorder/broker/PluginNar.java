package dispatchaudit.recorder.broker;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;

/** NARs of plugins of these tests: a broker finds the class on its class path, so its NAR only names it. */
final class PluginNar {
    private PluginNar() {
    }

    static void ofInterceptor(Path nar, String name, Class<?> interceptor) throws IOException {
        write(nar, name, "broker_interceptor.yml", "interceptorClass", interceptor);
    }

    static void ofEntryFilter(Path nar, String name, Class<?> filter) throws IOException {
        write(nar, name, "entry_filter.yml", "entryFilterClass", filter);
    }

    private static void write(Path nar, String name, String definition, String names, Class<?> plugin) throws IOException {
        try (OutputStream file = Files.newOutputStream(nar); JarOutputStream out = new JarOutputStream(file)) {
            out.putNextEntry(new ZipEntry("META-INF/bundled-dependencies/README"));
            out.putNextEntry(new ZipEntry("META-INF/services/" + definition));
            out.write(("name: " + name + "\ndescription: of a test\n" + names + ": " + plugin.getName() + "\n")
                    .getBytes(StandardCharsets.UTF_8));
        }
    }
}
