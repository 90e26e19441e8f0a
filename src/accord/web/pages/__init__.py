"""Pages of the workbench: each file has the routes of a page and the values that its templates show."""
