"""The peers that semclass is compared with: how each is trained, loaded and used."""
