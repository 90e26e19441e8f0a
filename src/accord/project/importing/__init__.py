"""Import of files: survey, columns, the rubric that labels imply, and rows for the store."""
