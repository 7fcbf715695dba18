"""Hash ranges and routings as values: from a selector, from reports of a broker, or from dispatches."""
