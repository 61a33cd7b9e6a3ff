"""What comes, leaves or is altered between two looks, until the stream is where it holds."""
