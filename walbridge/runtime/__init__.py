"""What both programs need to run that is no contract: what monitors see (``monitoring``), what a program says of its
end (``reports``), and here logs, limits of the machine, the arithmetic of a heap, pauses, signals and kill points.
"""
