"""What must hold before and while a pipeline runs; each refusal names its remedy."""
