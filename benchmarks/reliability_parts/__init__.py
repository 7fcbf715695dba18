"""What `benchmarks.reliability` tries, a module each; a part returns its figures by name."""
