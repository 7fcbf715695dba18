"""What the broker reports of itself, compared with the reconstruction."""
