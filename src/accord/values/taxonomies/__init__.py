"""The taxonomies of issues that ship with Accord."""
