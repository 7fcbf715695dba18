"""The plan of an audit on an engine: pack, place, exchange and replay."""
