"""What decisions cost and bring, and which is the best under rules."""
