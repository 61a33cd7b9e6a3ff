"""Publications: which tables they hold, what several of them publish together, and what their row filters leave out."""
