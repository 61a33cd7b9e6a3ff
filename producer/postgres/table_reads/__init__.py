"""Reading the rows of tables: for the first copy, and in chunks while their changes go on."""
