"""The parts of `benchmarks.reliability`, a module each; a part returns its figures by name."""
