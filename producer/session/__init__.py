"""One session of the stream: from frames to changes in the open batch."""
