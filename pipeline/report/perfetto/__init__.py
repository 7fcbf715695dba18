"""A run on a time line, for the viewers of Perfetto and Chrome."""
