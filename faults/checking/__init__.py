"""What a trial left, read without the code under test, and the rules that find damage in it."""
