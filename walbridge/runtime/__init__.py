"""What both programs need to run that is no contract: health, logs, crash reports, Java, kill points."""
