"""What a step costs, counted; see README.md."""
