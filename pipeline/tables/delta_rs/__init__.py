"""Tables below a local path, read and written by delta-rs, without a JVM."""
