package dispatchaudit.recorder.broker;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;

/** NARs of interceptors of these tests: a broker finds the class on its class path, so its NAR only names it. */
final class InterceptorNar {
    private InterceptorNar() {
    }

    static void write(Path nar, String name, Class<?> interceptor) throws IOException {
        try (OutputStream file = Files.newOutputStream(nar); JarOutputStream out = new JarOutputStream(file)) {
            out.putNextEntry(new ZipEntry("META-INF/bundled-dependencies/README"));
            out.putNextEntry(new ZipEntry("META-INF/services/broker_interceptor.yml"));
            out.write(("name: " + name + "\ndescription: of a test\ninterceptorClass: " + interceptor.getName() + "\n")
                    .getBytes(StandardCharsets.UTF_8));
        }
    }
}
