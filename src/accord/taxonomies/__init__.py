"""The taxonomies of issues that come with Accord, as YAML."""
