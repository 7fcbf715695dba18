"""The membership of one subscription: who was connected, who owned which hashes, and how surely."""
