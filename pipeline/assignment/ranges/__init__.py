"""Hash ranges and routings as values: what a selector decides, a broker reports, or dispatches show."""
