"""What to do about damaged data: the same words wherever it is found. Pure."""

NEXT_STEP = (
    "Restore the file from a backup; or stop the broker and see what can be kept: "
    "danube-broker storage inspect --data-dir ..., and verify and repair beside it"
)
"""Behind the sentence that names file, byte and trouble."""
