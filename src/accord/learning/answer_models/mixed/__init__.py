"""The linear mixed model: layout, equations, restricted likelihood and answers."""
