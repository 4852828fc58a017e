"""What keeps one writer from another's way, and says what is wrong where that fails."""
