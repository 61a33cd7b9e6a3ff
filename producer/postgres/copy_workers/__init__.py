"""Worker processes that read rows of tables and encode them; what they made is published by the one producer."""
