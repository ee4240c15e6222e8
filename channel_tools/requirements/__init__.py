"""What an upstream release asks for, against what a recipe gives it."""
