"""What semclass is compared with: how each peer is trained, loaded and asked."""
