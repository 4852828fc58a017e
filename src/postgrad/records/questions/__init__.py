"""What is answered to questions about decisions."""
