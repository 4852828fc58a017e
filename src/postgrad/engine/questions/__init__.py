"""What decisions cost and bring, decisions under rules, and decisions of which a part is given."""
