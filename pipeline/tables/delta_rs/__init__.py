"""Tables below a local path or in an object store, read and written by delta-rs, without a JVM."""
