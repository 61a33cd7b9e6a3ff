"""What the copies of one session know: tables that are copied or wait for it, and what is held back meanwhile."""
